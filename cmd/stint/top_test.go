package main

import (
	"strings"
	"testing"
)

// A screen is overwritten line by line, and never scrolls.
func TestTopRedrawsTheScreen(t *testing.T) {
	var out strings.Builder
	if err := redraw(&out, "a\nbb\n", 24); err != nil || out.String() != "\x1b[Ha\x1b[K\r\nbb\x1b[K\r\n\x1b[J" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := redraw(&out, strings.Repeat("line\n", 100), 10); err != nil || strings.Count(out.String(), "\n") != 9 ||
		!strings.Contains(out.String(), "\n...\x1b[K") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestTopTellsBounds(t *testing.T) {
	for _, c := range []struct {
		count, err uint64
		want       string
	}{{5, 0, "5"}, {5, 5, "0..5"}, {100, 10, "90..100"}, {1, 2, "1"}} {
		if got := estimate(c.count, c.err); got != c.want {
			t.Errorf("%d with an error of %d: %s", c.count, c.err, got)
		}
	}
}
