package shard

import (
	"strings"
	"testing"
)

func TestKeyProblem(t *testing.T) {
	for key, want := range map[string]string{
		"user:42":                "",
		"ключ \ufffd":            "",
		strings.Repeat("k", 512): "",
		"":                       "is missing",
		strings.Repeat("k", 513): "has 513 bytes: at most 512 are allowed",
		"a\tb":                   "has the control character U+0009 at byte 1",
		"\u0085":                 "has the control character U+0085 at byte 0",
		"ab\xff":                 "is not valid UTF-8 at byte 2",
	} {
		if got := KeyProblem(key); got != want {
			t.Errorf("%q: %q, expected %q", key, got, want)
		}
	}
}
