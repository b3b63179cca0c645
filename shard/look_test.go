package shard

import (
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// A cost of 0 looks: the entry denies the whole if its key has no room for one unit. It counts nothing, leaves no
// record of its key, and gives nothing back.
func TestALookBesideATake(t *testing.T) {
	w := newWorld(t,
		&policy.Policy{Name: "p",
			Limits: []policy.Limit{{Name: "a", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 3}}}},
		&policy.Policy{Name: "q",
			Limits: []policy.Limit{{Name: "b", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}})
	ask := func(number limit.Time) Decision {
		r := checkOf("p", "k", 1)
		r.Entries = append(r.Entries, Entry{Policy: "q", Key: "looked at"})
		results, puts := w.batch(origin+number, r)
		if results[0].Err != nil {
			t.Fatal(results[0].Err)
		}
		if d := results[0].Decision; len(puts) > 1 || d.Allowed != (len(puts) == 1) {
			t.Errorf("allowed %v, with %d records", d.Allowed, len(puts))
		}
		return results[0].Decision
	}
	d := ask(1)
	if !d.Allowed || d.Limits[0].Used != 1 || d.Limits[1].Used != 0 || d.Limits[1].Remaining != 1 {
		t.Errorf("%+v", d)
	}
	r := checkOf("p", "k", 1)
	r.Entries = append(r.Entries, Entry{Policy: "q", Key: "looked at"})
	if taken := Taken(&r, &d); taken[1].Cost != 0 || len(taken[1].Counted) != 0 {
		t.Errorf("a refund would give back %+v", taken[1])
	}
	if results, _ := w.batch(origin+2, checkOf("q", "looked at", 1)); !results[0].Decision.Allowed {
		t.Fatalf("%+v", results[0])
	}
	if d := ask(3); d.Allowed || d.Limits[0].Used != 1 || d.Limits[1].Allowed || d.RetryAfter != limit.Never {
		t.Errorf("%+v", d)
	}

}
