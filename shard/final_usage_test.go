package shard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

// Each bill is in exactly one walk: that of the time in which it became final, whatever the size of the pages.
func TestFinalBillsAreReadOnce(t *testing.T) {
	w := newWorld(t, billed(limit.Limit{Algorithm: limit.Unlimited}))
	const keys = 30
	var want, got []string
	walk := func(after, through limit.Time, most int) {
		q := FinalQuery{After: after, Through: through, Most: most, Wants: func(namespace, policy string) bool {
			return namespace == "default" && policy == "p"
		}}
		for {
			page, err := ReadFinalUsage(w.state, w.policies, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range page.Periods {
				got = append(got, fmt.Sprint(u.Key, (u.Start-origin)/limit.Time(hour), u.Units))
			}
			if q.From = page.Next; q.From == (UsagePlace{}) {
				return
			}
		}
	}
	final := limit.Time(hour + minute)
	for i := range keys {
		w.batch(origin+1, checkOf("p", fmt.Sprint("key ", i), uint64(1+i)))
	}
	w.batch(origin+final-1, checkOf("p", "other", 1))
	if walk(0, w.state.Time(), 7); len(got) != 0 {
		t.Errorf("before it is final: %v", got)
	}
	w.batch(origin+final, checkOf("p", "other", 1)) // in the second hour, as the one before
	walk(0, origin+final, 7)
	w.batch(origin+2*final, checkOf("p", "third", 1))
	walk(origin+final, origin+2*final, 1)
	for i := range keys {
		want = append(want, fmt.Sprint(fmt.Sprint("key ", i), 0, 1+i))
	}
	want = append(want, fmt.Sprint("other", 1, 2))
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = nil
	q := FinalQuery{Through: w.state.Time(), Most: 100, Wants: func(string, string) bool { return false }}
	if page, err := ReadFinalUsage(w.state, w.policies, q); err != nil || len(page.Periods) > 0 {
		t.Errorf("of no policy: %v %v", err, page.Periods)
	}
}

// A grace may be as long as a period is kept, or longer: the bill is final for a while before it is forgotten, so that
// it is listed and pushed.
func TestABillIsFinalBeforeItIsForgotten(t *testing.T) {
	for _, grace := range []limit.Span{2*hour - minute, 2 * hour, 5*hour + minute} {
		p := billed(limit.Limit{Algorithm: limit.Unlimited})
		p.Meter.Grace = grace
		w := newWorld(t, p)
		w.batch(origin+1, checkOf("p", "ann", 7))
		final := origin + anHour + limit.Time(grace)
		w.batch(final, checkOf("p", "bob", 1))
		page, err := ReadFinalUsage(w.state, w.policies, FinalQuery{After: final - 1, Through: final, Most: 9,
			Wants: func(string, string) bool { return true }})
		if err != nil || len(page.Periods) != 1 || page.Periods[0].Units != 7 {
			t.Errorf("grace %d: pushed when it is final: %v, %+v", grace, err, page.Periods)
		}
		w.wantBills(final+anHour-1, "ann", [3]uint64{0, 7, 0})
		w.wantBills(final+anHour+limit.Time(minute), "ann")
	}
}

// A page has no more periods than were asked for, unless one key has more, and those of a key are together.
func TestAPageOfFinalBillsHasNoMoreThanWasAskedFor(t *testing.T) {
	w := newWorld(t, billed(limit.Limit{Algorithm: limit.Unlimited}))
	for hours := range limit.Time(2) {
		for i := range 20 {
			w.batch(origin+hours*limit.Time(hour)+1, checkOf("p", fmt.Sprint("key ", i), 1))
		}
	}
	w.batch(origin+2*limit.Time(hour+minute), checkOf("p", "other", 1))
	for most := range 8 {
		q := FinalQuery{Through: w.state.Time(), Most: max(1, most), Wants: func(string, string) bool { return true }}
		met := map[string]int{}
		for {
			page, err := ReadFinalUsage(w.state, w.policies, q)
			if err != nil || len(page.Periods) > max(2, most) {
				t.Fatalf("%d of %d at most, %v", len(page.Periods), most, err)
			}
			here := map[string]bool{}
			for _, u := range page.Periods {
				if met[u.Key]++; met[u.Key] > 1 && !here[u.Key] {
					t.Errorf("at most %d: the periods of %q are apart", most, u.Key)
				}
				here[u.Key] = true
			}
			if q.From = page.Next; q.From == (UsagePlace{}) {
				break
			}
		}
		for i := range 20 {
			if key := fmt.Sprint("key ", i); met[key] != 2 {
				t.Errorf("at most %d: %q has %d periods", most, key, met[key])
			}
		}
	}
}

// TestNoBillIsLeftOutAmongKeysOfOneHash: clients can choose such keys, more than a page has, and as long as they like. A
// position is noted after each page.
func TestNoBillIsLeftOutAmongKeysOfOneHash(t *testing.T) {
	for i := range 9 { // slots of all kinds
		tag := strings.Repeat("<", i%2*300) + fmt.Sprintf("{%d}", i)
		w := newWorld(t, billed(lifetimeOf(1000)))
		w.must(origin, checkOf("p", "ann", 1))
		r, _ := w.state.Lookup(counterKeyOf("p", "ann"))
		const keys = 100
		for _, key := range ofOneHash(counterKeyOf("p", tag), keys) {
			w.state.table.Put(key, r)
		}
		w.batch(origin+anHour+limit.Time(minute), checkOf("p", "bob", 1))
		met := map[string]int{}
		q := FinalQuery{Through: w.state.Time(), Most: 40, Wants: func(string, string) bool { return true }}
		for {
			page, err := ReadFinalUsage(w.state, w.policies, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range page.Periods {
				if met[u.Key]++; met[u.Key] > 1 {
					t.Fatalf("%q is pushed again", u.Key) // and for ever
				}
			}
			if page.Next == (UsagePlace{}) {
				break
			}
			text, err := PushPosition{Through: q.Through, From: page.Next, Tried: q.Through,
				Skipped: &SkippedBills{At: q.Through, Bills: 1 << 20}}.Encode()
			var at PushPosition
			if err := cmp.Or(err, json.Unmarshal(text, &at)); err != nil || len(text) > PushPositionMost {
				t.Errorf("%q: a position of %d bytes, %v", tag, len(text), err)
				break
			}
			q.From = at.From
		}
		if len(met) != keys+1 {
			t.Errorf("%q: %d of %d keys are pushed", tag, len(met), keys+1)
		}
	}
}

// A record that cannot be read fails no listing: its key is named.
func TestAListingNamesWhatItCannotRead(t *testing.T) {
	w := newWorld(t, billed(limit.Limit{Algorithm: limit.Unlimited}))
	w.batch(origin+1, checkOf("p", "bad", 1))
	w.spoil("k")
	r, _ := w.state.Lookup(counterKeyOf("p", "bad"))
	r.Value = append([]byte{counterFormat | counterMeters}, r.Value[1:5]...)
	w.state.table.Put(counterKeyOf("p", "bad"), r)
	w.batch(origin+2, checkOf("p", "good", 1))
	want := []Usage{{Namespace: "default", Policy: "p", Key: "bad"}}
	page := w.page(origin+3, UsageQuery{})
	if len(page.Periods) != 1 || page.Periods[0].Key != "good" || !slices.Equal(page.Unreadable, want) {
		t.Errorf("listed: %+v", page)
	}
	final, err := ReadFinalUsage(w.state, w.policies,
		FinalQuery{Through: w.state.Time(), Most: 9, Wants: func(string, string) bool { return true }})
	if err != nil || !slices.Equal(final.Unreadable, want) {
		t.Errorf("pushed: %+v, %v", final, err)
	}
	results, _ := Evaluate(w, w.policies, []Request{UsageRequest("default", w.state.id, UsageQuery{Key: "bad"})},
		w.next(origin+4))
	if err := results[0].Err; err == nil || err.Code != Unreadable {
		t.Errorf("asked for alone: %+v", results[0])
	}
}
