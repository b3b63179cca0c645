package shard

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// untilOldEnd is in each error that there is no room: clients know it by that, and never let a request pass for it.
const untilOldEnd = "until old ones end"

// newCapWorld returns a shard with a policy of at most 5 keys and one without a bound.
func newCapWorld(t *testing.T) *world {
	bound := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour})
	bound.Name, bound.MaxKeys = "bound", 5
	return newWorld(t, onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: hour}), bound)
}

func inNamespace(namespace string, r Request) Request {
	r.Namespace = namespace
	return r
}

func TestAPolicyHasNoMoreKeysThanItsCap(t *testing.T) {
	w := newCapWorld(t)
	var requests []Request
	for n := range 8 { // in one batch
		requests = append(requests, checkOf("bound", fmt.Sprint("key ", n%7), 1)) // the last is an old one
	}
	results, _ := w.batch(origin+1, requests...)
	for n, r := range results {
		if n < 5 || n == 7 {
			if r.Err != nil || !r.Decision.Allowed {
				t.Errorf("key %d: %+v", n%7, r)
			}
			continue
		}
		if r.Err == nil || r.Err.Code != MemoryFull || r.Err.MaybeApplied() || r.Err.Field != "entries[0].key" ||
			!strings.Contains(r.Err.Message, `policy "bound" counts 5 keys of namespace "default"`) ||
			!strings.Contains(r.Err.Message, untilOldEnd) {
			t.Errorf("key %d: %+v", n, r)
		}
	}
	for _, op := range []Op{Check, Count, Partial, Block, SetUsed} { // whatever would add one
		r := checkOf("bound", "one more", 1)
		if r.Op = op; op >= SetUsed {
			r.Adjustment = &Adjustment{Amount: 1, Until: origin + limit.Time(hour)}
		}
		if err := w.refused(origin+2, r); err.Code != MemoryFull {
			t.Errorf("op %d: %v", op, err)
		}
	}
	w.must(origin+3, Request{Op: Get, Namespace: "default",
		Entries: []Entry{{Policy: "bound", Key: "one more", Cost: 1}}})
	w.wantUsed(origin+3, "bound", "one more", 0)
	w.must(origin+3, reserveOf(Entry{Policy: "bound", Key: "key 1", Cost: 1})) // an old key goes on
	w.must(origin+4, checkOf("p", "one more", 1))                              // another policy
	w.must(origin+5, inNamespace("shop", checkOf("bound", "one more", 1)))     // another namespace
	both := checkOf("p", "both", 1)
	both.Entries = append(both.Entries, Entry{Policy: "bound", Key: "both", Cost: 1})
	if err := w.refused(origin+6, both); err.Field != "entries[1].key" {
		t.Errorf("the second of two entries: %v", err)
	}
	w.wantUsed(origin+6, "p", "both", 0)
	w.forget(origin+7, "key 0")
	w.must(origin+8, checkOf("bound", "one more", 1))
	if err := w.refused(origin+9, checkOf("bound", "two more", 1)); err.Code != MemoryFull {
		t.Error(err)
	}
}

// TestAPolicyHasNoMoreKeysThanItsCapByOneRequest: all new keys of a request count against a cap, but those that it only
// looks at.
func TestAPolicyHasNoMoreKeysThanItsCapByOneRequest(t *testing.T) {
	w := newCapWorld(t)
	several := func(op Op, keys ...string) (r Request) {
		r = reserveOf()
		r.Op = op
		for _, key := range keys {
			r.Entries = append(r.Entries, Entry{Policy: "bound", Key: key, Cost: 1})
		}
		return r
	}
	w.must(origin+1, several(Check, "1", "2", "3"))
	for _, op := range []Op{Check, Count, Partial, Reserve} {
		if err := w.refused(origin+2, several(op, "4", "1", "5", "6")); err.Code != MemoryFull ||
			err.Field != "entries[3].key" || !strings.Contains(err.Message, "counts 5 keys") {
			t.Errorf("op %d: %v", op, err)
		}
	}
	looks := several(Check, "4", "5", "6")
	looks.Entries[0].Cost = 0
	w.must(origin+3, looks)
	if err := w.refused(origin+4, several(Check, "5", "4")); err.Code != MemoryFull {
		t.Error(err)
	}
	if err := w.refused(origin+5, several(Check, "7", "7")); err.Code != MemoryFull {
		t.Error(err)
	}
	w.forget(origin+6, "5")
	if err := w.refused(origin+7, several(Check, "7", "7")); err.Code != Invalid {
		t.Error(err)
	}
	w.must(origin+8, several(Check, "7"))
}

// TestAShardHasItsPartOfACap: that of its slots, rounded up, in what it refuses and in what it reports. A shard with
// all slots has all of it.
func TestAShardHasItsPartOfACap(t *testing.T) {
	for slots, want := range map[int]int{0: 5, 1: 1, 204: 1, 205: 2, 512: 3, 819: 4, 820: 5, 1024: 5} {
		w := newCapWorld(t)
		w.slots = slots
		var requests []Request
		for n := range 8 {
			requests = append(requests, checkOf("bound", fmt.Sprint("key ", n), 1))
		}
		counted := 0
		results, _ := w.batch(origin+1, requests...)
		for _, r := range results {
			if r.Err == nil {
				counted++
			} else if !strings.Contains(r.Err.Message, fmt.Sprintf("part of max_keys is %d of 5", want)) {
				t.Error(r.Err)
			}
		}
		uses := w.state.CapUses(w.policies, w.Room())
		if counted != want || len(uses) != 1 || uses[0].Keys != want || uses[0].MaxKeys != uint64(want) {
			t.Errorf("with %d slots it counts %d keys and reports %+v, must be %d of 5", slots, counted, uses, want)
		}
	}
	for _, most := range []uint64{1, 1023, 1 << 40, math.MaxUint64} {
		if got := (Room{Slots: 1024}).keys(most); got != most {
			t.Errorf("all slots have %d of %d", got, most)
		}
		if got := (Room{Slots: 512}).keys(most); got != most/2+most%2 {
			t.Errorf("half of the slots have %d of %d", got, most)
		}
	}
}

// When memory is nearly used up, the largest user of it leaves the rest to others.
func TestWhoeverHasMostOfAShardLeavesTheRestToOthers(t *testing.T) {
	inline := checkOf("mine", "k", 1)
	inline.Entries[0].Limits = []policy.Limit{{Name: "i", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 5}}}
	for name, story := range map[string]struct {
		flood  func(n int) Request // adds a record each time
		others bool                // others have records
		field  string              // of the refusal; "": none
	}{
		"a policy beside another": {func(n int) Request { return checkOf("p", fmt.Sprint("{tag}", n), 1) }, true,
			"entries[0].key"},
		"a policy alone": {func(n int) Request { return checkOf("p", fmt.Sprint("{tag}", n), 1) }, false, ""},
		"ids on one key": {func(n int) Request {
			r := checkOf("p", "k", 1)
			r.ID = fmt.Sprint("id ", n)
			r.Namespace = "shop"
			return r
		}, true, "namespace"},
		"labels of inline limits": {func(n int) Request {
			r := inline
			r.Entries = []Entry{inline.Entries[0]}
			r.Entries[0].Policy = fmt.Sprint("label-", n)
			return r
		}, true, "entries[0].key"},
	} {
		w := newCapWorld(t)
		if story.others {
			w.must(origin+1, inNamespace("other", checkOf("bound", "other", 1)))
		}
		for n := range 20 {
			w.must(origin+2+limit.Time(n), story.flood(n))
		}
		w.crowd = true
		results, _ := w.batch(origin+100, story.flood(20))
		if err := results[0].Err; story.field == "" && err != nil ||
			story.field != "" && (err == nil || err.Code != MemoryFull || err.Field != story.field ||
				!strings.Contains(err.Message, untilOldEnd)) {
			t.Errorf("%s: %v", name, err)
		}
		w.must(origin+101, inNamespace("other", checkOf("bound", "another", 1)))
		w.must(origin+102, inNamespace("third", checkOf("p", "another", 1)))
		old := story.flood(3)
		old.ID = ""
		w.must(origin+103, old) // an old key goes on
	}
}

func TestSharesComeBackFromASnapshot(t *testing.T) {
	w := newCapWorld(t)
	for n := range 300 {
		r := inNamespace(strings.Repeat("n", 1+n%200), checkOf("p", fmt.Sprint(n), 1))
		r.ID = fmt.Sprint(n)
		w.must(origin+limit.Time(n), r)
	}
	restored, err := Restore(w.state.id, bytes.NewReader([]byte(w.snapshot())))
	if err != nil {
		t.Fatal(err)
	}
	audit(t, w.state)
	audit(t, restored)
	if got, want := restored.Shares("n", "p"), w.state.Shares("n", "p"); got != want || want.Policy.Keys != 2 ||
		want.Namespace.Keys != 4 || want.All.Keys != 600 {
		t.Errorf("restored %+v, want %+v", got, want)
	}
}
