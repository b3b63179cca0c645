package shard

import (
	"iter"
	"reflect"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// owner is a small actor: it evaluates through an overlay of effects that are not installed yet, and installs entries
// as they come back.
type owner struct {
	*world
	overlay map[string]Record
	pending [][]byte // payloads, oldest first
	stamp   Stamp
	seen    []Record // records read by the current evaluation, copied
	read    []Record // the same, not copied
}

func (o *owner) decide(now limit.Time, requests []Request) []Result {
	o.Helper()
	o.stamp = o.next(now)
	o.stamp.Seq += uint64(len(o.pending))

	o.seen, o.read = nil, nil
	before, sum := copyOf(requests), o.state.Sum()
	results, puts := Evaluate(o, o.policies, requests, o.stamp)
	if !reflect.DeepEqual(before, requests) || o.state.Sum() != sum || !reflect.DeepEqual(o.seen, o.read) {
		o.Fatalf("the evaluation changed its arguments: requests were %+v, are %+v", before, requests)
	}
	if len(results) != len(requests) {
		o.Fatalf("%d answers to %d requests", len(results), len(requests))
	}
	if len(puts) > 0 && !slices.ContainsFunc(requests, o.mayWrite) {
		o.Fatalf("reads have %d effects: %+v", len(puts), requests)
	}
	keys := map[string]bool{}
	for _, p := range puts {
		if keys[p.Key] {
			o.Fatalf("two effects on %q in one batch", p.Key)
		}
		if p.Value != nil && p.ForgetAt <= now {
			o.Fatalf("the effect on %q is dead at its birth: %d at %d", p.Key, p.ForgetAt, now)
		}
		keys[p.Key] = true
		o.overlay[p.Key] = p.Record
	}
	o.pending = append(o.pending, EncodeBatch(o.stamp, puts))
	return results
}

// mayWrite reports whether a request may have effects. Of a read only one may: that a revision that resets has reached
// the key (X7).
func (o *owner) mayWrite(r Request) bool {
	return r.Op.Changes() || r.Op == OpenSession || r.Op == Lease || slices.ContainsFunc(r.Entries, func(e Entry) bool {
		p, known := o.policies.Lookup(e.Policy)
		return known && e.Limits == nil && p.OnChange == policy.Restart
	})
}

// adopt logs a revision of the policies, as an actor does.
func (o *owner) adopt(now limit.Time, set *policy.Set) {
	at := o.next(now)
	at.Seq += uint64(len(o.pending))
	puts := Adopt(o, o.policies, policy.Revision{Version: AdoptedVersion(o) + 1, Set: set}, at)
	for _, p := range puts {
		o.overlay[p.Key] = p.Record
	}
	o.policies = set
	o.pending = append(o.pending, EncodeBatch(at, puts))
}

func (o *owner) installOldest() {
	if outcome := o.append(o.pending[0]); outcome.Dropped != NotDropped {
		o.Fatalf("dropped: %v", outcome.Dropped)
	}
	if o.pending = o.pending[1:]; len(o.pending) == 0 {
		clear(o.overlay)
	}
}

func (o *owner) All() iter.Seq2[[]byte, Record] {
	return func(yield func([]byte, Record) bool) {
		for key, r := range o.overlay {
			if r.Value != nil && !yield([]byte(key), r) {
				return
			}
		}
		for key, r := range o.state.All() {
			if _, laid := o.overlay[string(key)]; !laid && !yield(key, r) {
				return
			}
		}
	}
}

func (o *owner) Scan(from uint64) iter.Seq2[[]byte, Record] {
	all := NewState(o.state.id)
	for key, r := range o.All() {
		all.put(Put{Key: string(key), Record: r})
	}
	return all.Scan(from)
}

func (o *owner) Lookup(key string) (Record, bool) {
	r, laid := o.overlay[key]
	found := r.Value != nil
	if !laid {
		r, found = o.state.Lookup(key)
	}
	if found {
		o.read = append(o.read, r)
		o.seen = append(o.seen, Record{Value: slices.Clone(r.Value), ForgetAt: r.ForgetAt})
	}
	return r, found
}

func copyOf(requests []Request) []Request {
	copied := slices.Clone(requests)
	for i := range copied {
		copied[i].Entries = slices.Clone(copied[i].Entries)
	}
	return copied
}
