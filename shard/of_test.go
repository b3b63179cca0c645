package shard

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/shard/placement"
)

// The function is fixed forever: a key that moved to another shard would start at rest.
func TestOfGoldenVectors(t *testing.T) {
	text := ""
	for _, c := range []struct{ namespace, key string }{
		{"default", "user:42"}, {"default", "203.0.113.7"}, {"", "user:42"}, {"other", "user:42"}, {"default", ""},
		{"default", "ключ"}, {"default", "{acme}"}, {"default", "{acme}/x"}, {"default", "y{acme}z"}, {"default", "acme"},
		{"default", "a{}b"}, {"default", "a{b"}, {"default", "a}b"}, {"default", "{a}{b}"}, {"default", "{{a}}"}, {"default", "}{a}"},
	} {
		text += fmt.Sprintf("%q %q: %d of 4, %d of 16, %d of 255, %d of 4096\n", c.namespace, c.key,
			Of(c.namespace, c.key, 4), Of(c.namespace, c.key, 16), Of(c.namespace, c.key, 255), Of(c.namespace, c.key, 4096))
	}
	golden(t, "testdata/of.golden", text)
}

func TestTagPlacesKeysTogether(t *testing.T) {
	for key, tag := range map[string]string{
		"{acme}/x": "acme", "acme": "acme", "y{acme}z": "acme", "{a}{b}": "a", "{{a}}": "{a", "}{a}": "a",
		"a{}b": "a{}b", "a{}{b}": "a{}{b}", "a{b": "a{b", "a}b": "a}b", "": "",
	} {
		if got := placement.Tag(key); got != tag {
			t.Errorf("the tag of %q is %q, not %q", key, tag, got)
		}
		for shards := uint32(1); shards < 1000; shards++ {
			if Of("ns", key, shards) != Of("ns", "{"+tag+"}", shards) && tag != "" && placement.Tag("{"+tag+"}") == tag {
				t.Fatalf("%q and {%s} are apart among %d shards", key, tag, shards)
			}
		}
	}
}

func TestOfSpreadsEvenly(t *testing.T) {
	const keys = 100_000
	for _, shards := range []uint32{1, 3, 4, 16, 255} {
		counts := make([]int, shards)
		for i := range keys {
			counts[Of("default", fmt.Sprintf("user:%d", i), shards)]++
		}
		mean := float64(keys) / float64(shards)
		for id, n := range counts {
			// 5 standard deviations of a uniform distribution: 2.5 % at 4 shards, 5 % at 16, 25 % at 255.
			if d := float64(n) - mean; d*d > 25*mean {
				t.Errorf("shard %d of %d has %d keys, the mean is %.0f", id, shards, n, mean)
			}
		}
	}
}

func TestNamesThatOnlyLookAlikeAreDifferentCounters(t *testing.T) {
	seen := map[string]string{}
	add := func(key []byte, of ...string) {
		if other, twice := seen[string(key)]; twice {
			t.Errorf("%q and %s share the record %q", of, other, key)
		}
		seen[string(key)] = fmt.Sprintf("%q", of)
	}
	for _, parts := range [][3]string{
		{"a_b", "c", "d"}, {"a", "b_c", "d"}, {"a", "b", "c_d"}, {"a", "bc", "d"}, {"ab", "c", "d"}, {"a", "b", "cd"},
		{"abc", "", "d"}, {"", "abc", "d"}, {"", "", "abcd"}, {"a", "b\x01c", "d"}, {"a\x01b", "c", "d"}, {"a", "b", "\x01cd"},
		{"a", "b/c", "d"}, {"a", "b", "c/d"}, {"a/b", "c", "d"},
	} {
		add(appendCounterKey(nil, parts[0], parts[1], parts[2]), parts[:]...)
	}
	for _, parts := range [][2]string{{"a_b", "c"}, {"a", "b_c"}, {"a", "\x01bc"}, {"a", "bc"}, {"ab", "c"}, {"", "abc"}} {
		add(appendAnswerKey(nil, parts[0], parts[1]), parts[:]...)
	}
	w := newWorld(t, onePolicy(windowLimit))
	w.batch(origin+1, Request{Op: Check, Namespace: "a", Entries: []Entry{{Policy: "p", Key: "pb", Cost: 5}}})
	results, _ := w.batch(origin+2, Request{Op: Get, Namespace: "ap", Entries: []Entry{{Policy: "p", Key: "b"}}})
	if used := results[0].Decision.Limits[0].Used; used != 0 {
		t.Errorf("another namespace's key shows %d used", used)
	}
}
