package shard

import (
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// origin is the instant from which tests count: Monday, January 5, 2026, 00:00 UTC.
const origin limit.Time = 1_767_571_200_000_000

const (
	millisecond = limit.Span(1_000)
	second      = limit.Span(1_000_000)
	minute      = 60 * second
	hour        = 60 * minute
	day         = 24 * hour
)

// world is one shard with its log: it evaluates a batch against the committed state, as an owner does, and installs the
// effects, as a replica does.
type world struct {
	testing.TB
	state    *State
	policies *policy.Set
	index    uint64 // of the newest log entry
	term     uint64
	most     int // records the shard may hold; 0: no bound
	brim     bool
	crowd    bool
}

func newWorld(t testing.TB, policies ...*policy.Policy) *world {
	w := &world{TB: t, state: NewState(3), policies: policy.NewSet(policies), term: 1}
	w.append(EncodeEpochOpen(3, origin, LevelNewest))
	return w
}

// append writes an entry to the log and installs it.
func (w *world) append(payload []byte) Outcome {
	w.Helper()
	w.index++
	outcome, err := w.state.Install(payload, w.index, w.term)
	if err != nil {
		w.Fatalf("install of entry %d: %v", w.index, err)
	}
	return outcome
}

// next returns the stamp of the next entry at now.
func (w *world) next(now limit.Time) Stamp {
	return Stamp{Position: Position{w.state.id, w.state.Epoch(), w.state.Seq() + 1}, Now: now}
}

// batch decides requests at now and installs the effects.
func (w *world) batch(now limit.Time, requests ...Request) ([]Result, []Put) {
	w.Helper()
	at := w.next(now)
	results, puts := Evaluate(w, w.policies, requests, at)
	if outcome := w.append(EncodeBatch(at, puts)); outcome.Dropped != NotDropped {
		w.Fatalf("batch %d was dropped: %v", at.Seq, outcome.Dropped)
	}
	return results, puts
}

func (w *world) Lookup(key string) (Record, bool) { return w.state.Lookup(key) }
func (w *world) All() iter.Seq2[[]byte, Record]   { return w.state.All() }
func (w *world) Scan(from uint64) iter.Seq2[[]byte, Record] {
	return w.state.Scan(from)
}
func (w *world) Shares(ns, p string) Shares { return w.state.Shares(ns, p) }
func (w *world) Full() bool                 { return w.most > 0 && w.state.Records() >= w.most }
func (w *world) Brimful() bool              { return w.brim }
func (w *world) Crowded() bool              { return w.crowd }

// checkOf returns a plain Check of one entry.
func checkOf(policy, key string, cost uint64) Request {
	return Request{Op: Check, Namespace: "default", Entries: []Entry{{Policy: policy, Key: key, Cost: cost}}}
}

// onePolicy returns a policy named p with these limits, named a, b, c...
func onePolicy(limits ...limit.Limit) *policy.Policy {
	p := &policy.Policy{Name: "p", Retention: policy.DefaultRetention}
	for i, l := range limits {
		p.Limits = append(p.Limits, policy.Limit{Name: string(rune('a' + i)), Limit: l})
	}
	return p
}

// audit checks the invariants of a table after every entry, by looking at every record.
func audit(t testing.TB, table *table) {
	t.Helper()
	recount(t, table)
	var sum uint64
	minutes := make(map[limit.Time]uint64)
	records, bytes := 0, 0
	var heads [256]int
	for n := range table.segments.length {
		g := table.segments.at(n)
		bytes += g.bytes()
		at := g.first()
		for !g.past(at) {
			r, ok := g.intact(at)
			key := r.appendKey(nil, table.segments.heads)
			hash := xxhash.Sum64(key)
			if !ok || table.segmentIndex(hash) != n || r.tag != tagOfHash(hash) {
				t.Fatalf("the record of %q is in segment %d, where nobody looks for it", key, n)
			}
			if r.ForgetAt < g.forgetFirst {
				t.Fatalf("%q ends at %d, but its segment says that none ends before %d", key, r.ForgetAt, g.forgetFirst)
			}
			sum += recordSum(hash, r.Record)
			minutes[r.ForgetAt/sumMinute] += recordSum(hash, r.Record)
			heads[r.head]++
			records++
			at = r.next
		}
		if at.body != len(g.data) {
			t.Fatalf("the last record of segment %d ends at %d of %d", n, at.body, len(g.data))
		}
	}
	if sum != table.sum || records != table.records {
		t.Fatalf("the table says %d records of sum %x, it holds %d of %x", table.records, table.sum, records, sum)
	}
	heads[0] = 0
	if heads != table.heads.records {
		t.Fatalf("the heads have %v records, the table says %v", heads, table.heads.records)
	}
	for number, text := range table.segments.heads.texts {
		if (heads[number] > 0) != (text != "") || text != "" && table.heads.numbers[text] != byte(number) {
			t.Fatalf("head %d with %d records is %q, whose number is %d", number, heads[number], text, table.heads.numbers[text])
		}
	}
	if kept := table.ending.all(); !maps.Equal(kept, minutes) {
		t.Fatalf("the sums by minute are %x, of the records they are %x", kept, minutes)
	}
	if bytes != table.bytes {
		t.Fatalf("the table says %d bytes, its segments have %d", table.bytes, bytes)
	}
	fewest, most := (table.segments.length-1)*segmentRecords/4, table.segments.length*segmentRecords
	if records < fewest || records > most {
		t.Fatalf("%d records in %d segments", records, table.segments.length)
	}
}

// allRecords returns a table's records by key.
func allRecords(table *table) map[string]Record {
	all := make(map[string]Record, table.records)
	for key, r := range table.all() {
		all[string(key)] = Record{slices.Clone(r.Value), r.ForgetAt}
	}
	return all
}
