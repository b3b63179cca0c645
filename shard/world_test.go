package shard

import (
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
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
	slots    int       // 0: all
	table    *slot.Map // of Stamp; nil: all slots are the shard's
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
	return Stamp{Position: Position{w.state.id, w.state.Epoch(), w.state.Seq() + 1}, Now: now, Slots: w.table}
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

func (w *world) HasSlotRecords() bool { return w.state.HasSlotRecords() }

func (w *world) Room() Room {
	room := Room{Slots: w.slots}
	switch {
	case w.brim:
		room.Used = Brimful
	case w.most > 0 && w.state.Records() >= w.most:
		room.Used = Full
	case w.crowd:
		room.Used = Crowded
	}
	return room
}

// checkOf returns a plain Check of one entry.
func checkOf(policy, key string, cost uint64) Request {
	return Request{Op: Check, Namespace: "default", Entries: []Entry{{Policy: policy, Key: key, Cost: cost}}}
}

// adjustOf returns an operation by hand on one key.
func adjustOf(op Op, policy, key string, a Adjustment) Request {
	return Request{Op: op, Namespace: "default", Entries: []Entry{{Policy: policy, Key: key}}, Adjustment: &a}
}

// onePolicy returns a policy named p with these limits, named a, b, c...
func onePolicy(limits ...limit.Limit) *policy.Policy {
	p := &policy.Policy{Name: "p", Retention: policy.DefaultRetention}
	for i, l := range limits {
		p.Limits = append(p.Limits, policy.Limit{Name: string(rune('a' + i)), Limit: l})
	}
	return p
}

// audit checks what a state knows of its records after every entry, by looking at every record.
func audit(t testing.TB, s *State) {
	t.Helper()
	var want shares
	records := 0
	for key, r := range s.All() {
		records++
		want.count(string(key), 1, len(key)+len(r.Value))
	}
	if records != s.Records() {
		t.Fatalf("%d records, the table says %d", records, s.Records())
	}
	if !reflect.DeepEqual(s.shares, want) && len(s.shares.namespaces)+len(want.namespaces) > 0 {
		t.Fatalf("the shares are %+v, counted again %+v", s.shares, want)
	}
}

// allRecords returns a state's records by key.
func allRecords(s *State) map[string]Record {
	all := make(map[string]Record, s.Records())
	for key, r := range s.All() {
		all[string(key)] = Record{Value: slices.Clone(r.Value), ForgetAt: r.ForgetAt}
	}
	return all
}
