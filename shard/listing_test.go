package shard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// listedBy lists all keys of a world, page by page, as "policy key" with what an override has, in alphabetical order.
func listedBy(t *testing.T, w *world, q Listing) (keys []string) {
	t.Helper()
	for range 1000 {
		l := w.state.List(q)
		for _, k := range l.Keys {
			text := k.Policy + " " + k.Key
			if k.Override != nil {
				text += fmt.Sprintf(" quota %d", *k.Override.Limits["a"].Quota)
			}
			keys = append(keys, text)
		}
		if q.From = l.Next; q.From == 0 {
			slices.Sort(keys)
			return keys
		}
	}
	t.Fatal("the pages do not end")
	return nil
}

// A listing has what counts, of one namespace: not what has ended and was not swept, and no records but counters.
func TestAListingHasTheKeysThatCount(t *testing.T) {
	w := newWorld(t, onePolicy(limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 9, Period: minute}))
	quota := uint64(3)
	override := Request{Op: PutOverride, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "user:2", Cost: 1}},
		Adjustment: &Adjustment{
			Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}},
				Expires: origin + limit.Time(hour)}, Actor: "jo"}}
	inline := checkOf("mine", "user:1", 1)
	inline.Entries[0].Limits = []policy.Limit{{Name: "i", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 5}}}
	elsewhere := checkOf("p", "user:1", 1)
	elsewhere.Namespace, elsewhere.ID = "shop", "an id"
	for _, r := range []Request{checkOf("p", "user:1", 1), override, inline, elsewhere, checkOf("p", "org:1", 1)} {
		w.must(origin, r)
	}
	expect := func(q Listing, want ...string) {
		t.Helper()
		for _, q.Count = range []int{1, 2, 100} {
			if got := listedBy(t, w, q); !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", q, got, want)
			}
		}
	}
	expect(Listing{Namespace: "default"}, "p org:1", "p user:1", "p user:2 quota 3", "~mine user:1")
	expect(Listing{Namespace: "default", Prefix: "user:"}, "p user:1", "p user:2 quota 3", "~mine user:1")
	expect(Listing{Namespace: "default", Policy: "p", Prefix: "user:1"}, "p user:1")
	expect(Listing{Namespace: "default", Overrides: true}, "p user:2 quota 3")
	expect(Listing{Namespace: "shop"}, "p user:1")
	expect(Listing{Namespace: "office"})
	w.must(origin+limit.Time(minute)+1, checkOf("p", "late", 1))
	expect(Listing{Namespace: "default", Policy: "p"}, "p late", "p user:2 quota 3")
	w.must(origin+limit.Time(hour)+1, checkOf("p", "later", 1))
	expect(Listing{Namespace: "default", Overrides: true})
}

// A listing has the leases of a key until they end.
func TestAListingHasWhoHoldsLeases(t *testing.T) {
	w := newWorld(t, leasing(leasable["log"]))
	w.must(origin, checkOf("p", "other", 1))
	w.must(origin, leaseOf("k", LeaseTerms{Holder: "n1/x", Number: 300, Units: 3}))
	w.must(origin+1, leaseOf("k", LeaseTerms{Holder: "a client", Number: 1, Units: 2}))
	q, ends := Listing{Namespace: "default", Leases: true, Count: 9}, origin+limit.Time(2*second)
	want := []HeldLease{{"n1/x", 3, ends}, {"a client", 2, ends + 1}}
	if l := w.state.List(q); len(l.Keys) != 1 || l.Keys[0].Key != "k" || !slices.Equal(l.Keys[0].Leases, want) {
		t.Errorf("%+v", l.Keys)
	}
	w.must(ends, checkOf("p", "other", 1)) // the key is not asked for
	if l := w.state.List(q); len(l.Keys) != 1 || !slices.Equal(l.Keys[0].Leases, want[1:]) {
		t.Errorf("when the first has ended: %+v", l.Keys)
	}
	w.must(ends+1, checkOf("p", "other", 1))
	if l := w.state.List(q); len(l.Keys) != 0 {
		t.Errorf("then %+v", l.Keys)
	}
}

// Many keys are listed in bounded slices.
func TestAListingOfManyKeysIsInSlices(t *testing.T) {
	w := newWorld(t, onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 9}))
	const keys = 20_000
	for first := 0; first < keys; first += 500 {
		var batch []Request
		for n := range 500 {
			batch = append(batch, checkOf("p", fmt.Sprint("user:", first+n), 1))
		}
		w.batch(origin, batch...)
	}
	if l := w.state.List(Listing{Namespace: "default", Prefix: "nobody", Count: 1}); l.Next == 0 || len(l.Keys) > 0 {
		t.Errorf("one slice looked at all %d keys: %d found", w.state.Records(), len(l.Keys))
	}
	if got := listedBy(t, w, Listing{Namespace: "default", Count: 100}); len(slices.Compact(got)) != keys {
		t.Errorf("%d of %d keys", len(got), keys)
	}
}
