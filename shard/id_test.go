package shard

import (
	"fmt"
	"testing"

	"github.com/stint-io/stint/shard/slot"
)

// The function is fixed forever: a key in another slot would start at rest. So is the Map of a new cluster.
func TestSlotsGoldenVectors(t *testing.T) {
	text := ""
	for _, c := range []struct{ namespace, key string }{
		{"default", "user:42"}, {"default", "203.0.113.7"}, {"", "user:42"}, {"other", "user:42"}, {"default", ""},
		{"default", "ключ"}, {"default", "{acme}"}, {"default", "{acme}/x"}, {"default", "y{acme}z"},
		{"default", "acme"},
		{"default", "a{}b"}, {"default", "a{b"}, {"default", "a}b"}, {"default", "{a}{b}"}, {"default", "{{a}}"},
		{"default", "}{a}"},
	} {
		text += fmt.Sprintf("%q %q: slot %d", c.namespace, c.key, slot.Of(c.namespace, c.key))
		for _, shards := range []uint32{1, 3, 4, 255, 1024} {
			text += fmt.Sprintf(", %d of %d", Of(slot.Even(shards), c.namespace, c.key), shards)
		}
		text += "\n"
	}
	golden(t, "testdata/slots.golden", text)
}

func TestTagPlacesKeysTogether(t *testing.T) {
	for key, tag := range map[string]string{
		"{acme}/x": "acme", "acme": "acme", "y{acme}z": "acme", "{a}{b}": "a", "{{a}}": "{a", "}{a}": "a",
		"a{}b": "a{}b", "a{}{b}": "a{}{b}", "a{b": "a{b", "a}b": "a}b", "": "",
	} {
		if got := slot.Tag(key); got != tag {
			t.Errorf("the tag of %q is %q, not %q", key, tag, got)
		}
		if slot.Of("ns", key) != slot.Of("ns", "{"+tag+"}") && tag != "" && slot.Tag("{"+tag+"}") == tag {
			t.Errorf("%q and {%s} are apart", key, tag)
		}
	}
}

func TestOfSpreadsEvenly(t *testing.T) {
	const keys = 100_000
	for _, shards := range []uint32{1, 3, 4, 16, 255} {
		counts, slots := make([]int, shards), slot.Even(shards)
		for i := range keys {
			counts[slots.Of("default", fmt.Sprintf("user:%d", i))]++
		}
		for id, n := range counts {
			of := 0 // slots
			for _, at := range slots.Ranges(uint32(id)) {
				of += int(at.Last-at.First) + 1
			}
			if few := slot.Count / int(shards); of != few && of != few+1 {
				t.Errorf("shard %d of %d has %d slots", id, shards, of)
			}
			mean := keys * float64(of) / slot.Count
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
		{"abc", "", "d"}, {"", "abc", "d"}, {"", "", "abcd"}, {"a", "b\x01c", "d"}, {"a\x01b", "c", "d"},
		{"a", "b", "\x01cd"},
		{"a", "b/c", "d"}, {"a", "b", "c/d"}, {"a/b", "c", "d"},
	} {
		add(appendCounterKey(nil, parts[0], parts[1], parts[2]), parts[:]...)
	}
	for _, parts := range [][2]string{{"a_b", "c"}, {"a", "b_c"}, {"a", "\x01bc"}, {"a", "bc"}, {"ab", "c"},
		{"", "abc"}} {
		add(appendAnswerKey(nil, parts[0], 7, parts[1]), parts[:]...)
	}
	w := newWorld(t, onePolicy(windowLimit))
	w.batch(origin+1, Request{Op: Check, Namespace: "a", Entries: []Entry{{Policy: "p", Key: "pb", Cost: 5}}})
	results, _ := w.batch(origin+2, Request{Op: Get, Namespace: "ap", Entries: []Entry{{Policy: "p", Key: "b"}}})
	if used := results[0].Decision.Limits[0].Used; used != 0 {
		t.Errorf("another namespace's key shows %d used", used)
	}
}
