package shard

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

func addBy(actor, key string) Request {
	return adjustOf(AddUsed, "p", key, Adjustment{Amount: 1, Actor: actor, Note: "for " + actor})
}

func auditOf(w *world, now limit.Time) []AuditRecord {
	w.Helper()
	d := w.must(now, Request{Op: ReadAudit})
	return d.Answer().Audit
}

// TestTheNewestChangesAreKept: the ring holds 1,024; the newest 1,000 are listed, newest first.
func TestTheNewestChangesAreKept(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(1<<40)))
	if got := auditOf(w, origin); len(got) != 0 {
		t.Errorf("nobody did anything, and it is on record: %+v", got)
	}
	n := 0
	for n < auditKept+300 {
		var requests []Request
		for range 50 {
			requests = append(requests, addBy(fmt.Sprint("a", n), "k"))
			n++
		}
		w.batch(origin+limit.Time(n), requests...)
	}
	records := w.state.Records()
	got := auditOf(w, origin+limit.Time(n))
	if len(got) != auditRead || records != 1+1+auditKept {
		t.Fatalf("%d changes are listed, %d records kept", len(got), records)
	}
	for i, a := range got {
		if a.Actor != fmt.Sprint("a", n-1-i) || a.Position.Shard != w.state.id || a.Position.Seq == 0 ||
			a.At <= origin {
			t.Fatalf("the newest but %d is %+v", i, a)
		}
	}
	want := AuditRecord{At: got[0].At, Position: got[0].Position, Actor: got[0].Actor, Namespace: "default",
		Policy: "p", Key: "k", Deed: "add", Before: fmt.Sprintf("a: %d used", n-1), After: fmt.Sprintf("a: %d used", n),
		Note: "for " + got[0].Actor}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
}

// An actor with many changes displaces its own and no other actor's, under any names of persons.
func TestNobodyEmptiesTheAuditLogOfOthers(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(1<<40)))
	now := origin
	do := func(actor string, times int) {
		for n := 0; n < times; {
			var requests []Request
			for ; n < times && len(requests) < 50; n++ {
				name := actor
				if actor == "token:mallory" {
					name = fmt.Sprintf("token:mallory for %d", n)
				}
				requests = append(requests, addBy(name, "k"))
			}
			now++
			w.batch(now, requests...)
		}
	}
	do("token:ann for bob", 200)
	do("token:mallory", 3*auditKept)
	do("local", 100)
	do("token:mallory", 3*auditKept)
	counts := map[string]int{}
	last := limit.Time(limit.Forever)
	for _, a := range auditOf(w, now+1) {
		counts[provenActor(a.Actor)]++
		if a.At > last {
			t.Fatalf("%+v is behind an older one", a)
		}
		last = a.At
	}
	if counts["local"] != 100 || counts["token:ann"] < 176 ||
		counts["token:mallory"] != auditRead-100-counts["token:ann"] {
		t.Errorf("on record: %v", counts)
	}
}

// countingView counts the records that are looked up in it.
type countingView struct {
	*world
	lookups *int
}

func (v countingView) Lookup(key string) (Record, bool) {
	*v.lookups++
	return v.world.Lookup(key)
}

// While a shard records a change it decides nothing else: a full ring is read once for a batch, not for each of its
// changes.
func TestAFullAuditLogIsReadOnceForABatch(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(1<<40)))
	requests := slices.Repeat([]Request{addBy("token:ann", "k")}, 64)
	for range auditKept / len(requests) {
		w.batch(origin, requests...)
	}
	lookups := 0
	if results, _ := Evaluate(countingView{w, &lookups}, w.policies, requests,
		w.next(origin)); len(results) != len(requests) {
		t.Fatalf("%d of %d are decided", len(results), len(requests))
	}
	if lookups > 2*auditKept {
		t.Errorf("%d changes look up %d records", len(requests), lookups)
	}
}

// TestARecordOfAChangeIsWrittenWithIt: an operation that changes nothing is not recorded, and a copy is not recorded
// again.
func TestARecordOfAChangeIsWrittenWithIt(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(100)))
	r := addBy("kim", "k")
	r.ID = "once"
	w.batch(origin, r, r)
	w.must(origin+1, r)
	wrong := addBy("kim", "k")
	wrong.Limit = "nowhere"
	w.refused(origin+2, wrong)
	w.must(origin+2, Request{Op: DeleteOverride, Namespace: "default", Entries: r.Entries,
		Adjustment: &Adjustment{Actor: "kim"}})
	// without an actor, as before the audit log existed
	w.must(origin+2, Request{Op: Reset, Namespace: "default", Entries: r.Entries})
	// traffic
	w.must(origin+2, Request{Op: AddUsed, Namespace: "default", Entries: r.Entries,
		Adjustment: &Adjustment{Amount: -1}})
	if got := auditOf(w, origin+3); len(got) != 1 {
		t.Errorf("on record: %+v", got)
	}
	w.wantUsed(origin+3, "p", "k", 0)
}

// TestAuditAnswersHaveABound: with long notes the list is shorter, not larger in bytes.
func TestAuditAnswersHaveABound(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(1<<40)))
	r := addBy(strings.Repeat("a", MaxActor), strings.Repeat("k", keyBytesMax))
	r.Adjustment.Note = strings.Repeat("n", MaxNote)
	for n := range auditRead {
		w.batch(origin+limit.Time(n), r)
	}
	bytes := 0
	got := auditOf(w, origin+auditRead)
	for _, a := range got {
		bytes += len(a.Actor) + len(a.Key) + len(a.Note) + len(a.Before) + len(a.After)
	}
	if bytes > auditReadBytes || len(got) < 700 || len(got) == auditRead {
		t.Errorf("%d changes of %d bytes are listed", len(got), bytes)
	}
}

func TestWhatIsWrongWithAnAdjustment(t *testing.T) {
	w := newWorld(t, onePolicy(lifetimeOf(100)))
	one := []Entry{{Policy: "p", Key: "k"}}
	adjust := func(op Op, a Adjustment) Request {
		return Request{Op: op, Namespace: "default", Entries: one, Adjustment: &a}
	}
	limited := adjust(Unblock, Adjustment{})
	limited.Limit = "a"
	two := adjust(SetUsed, Adjustment{})
	two.Entries = []Entry{{Policy: "p", Key: "k"}, {Policy: "p", Key: "l"}}
	for want, bad := range map[string]Request{
		"op":          {Op: SetUsed, Namespace: "default", Entries: one},
		"entries":     two,
		"limit":       limited,
		"actor":       adjust(Reset, Adjustment{Actor: strings.Repeat("a", MaxActor+1)}),
		"note":        adjust(Reset, Adjustment{Note: strings.Repeat("n", MaxNote+1)}),
		"set_used":    adjust(SetUsed, Adjustment{Amount: limit.MaxQuota + 1}),
		"add_used":    adjust(AddUsed, Adjustment{Amount: -limit.MaxCost - 1}),
		"block_until": adjust(Block, Adjustment{Until: origin + 1 + limit.Time(limit.MaxPeriod) + 1}),
		"tier":        adjust(PutOverride, Adjustment{}),
	} {
		if err := w.refused(origin+1, bad); err.Code != Invalid || err.Field != want || err.Message == "" {
			t.Errorf("%s: refused with %+v", want, err)
		}
	}
	w.must(origin+1, adjust(Block, Adjustment{Until: origin + 1 + limit.Time(limit.MaxPeriod)}))
	w.must(origin+1, adjust(SetUsed, Adjustment{Amount: limit.MaxQuota}))
}

func FuzzDecodeAudit(f *testing.F) {
	f.Add(encodeAudit(&AuditRecord{At: origin, Position: Position{3, 1, 2}, Actor: "kim", Key: "k", Deed: "add",
		Note: "why"}))
	f.Add(encodeAudit(&AuditRecord{}))
	f.Add([]byte{recordFormat, 12})
	f.Add([]byte{recordFormat, 12, 0}) // more than a head: the count starts again
	f.Fuzz(func(t *testing.T, value []byte) {
		if n, err := decodeAuditHead(value); n > 0 && (err != nil || len(value) < 2) {
			t.Fatalf("%x says %d", value, n)
		}
		a, err := decodeAudit(value)
		if err != nil {
			return
		}
		again, err := decodeAudit(encodeAudit(&a))
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Fatalf("%+v comes back as %+v, %v", a, again, err)
		}
	})
}
