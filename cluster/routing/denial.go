package routing

import (
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// denial is a denial that may be repeated.
type denial struct {
	inquiry
	namespace string
	entries   []shard.Entry
	revision  uint64     // of the policies that allow it to be repeated
	decided   limit.Span // the decision was made at this instant of our clock or later
	heard     limit.Span // its RetryAfter had begun by this instant
	dies      limit.Span // it is not repeated from this instant on
	decision  shard.Decision
}

// stands reports whether the denial is still valid, assuming that the request is the denied one.
func (k *denial) stands(q *inquiry, revision uint64, now limit.Span) bool {
	return k.hash == q.hash && k.changes == q.changes && k.revision == revision && now < k.dies
}

// answers reports whether the request is the one that was denied.
func (k *denial) answers(r *shard.Request) bool {
	if k.namespace != r.Namespace || len(k.entries) != len(r.Entries) {
		return false
	}
	for i := range r.Entries {
		a, b := &k.entries[i], &r.Entries[i]
		if a.Key != b.Key || a.Cost != b.Cost || a.Policy != b.Policy || a.Tier != b.Tier {
			return false
		}
	}
	return true
}

// repeat writes the denial into an answer, with the remaining waits. It writes the statuses into limits, which must
// have the right length.
func (k *denial) repeat(now limit.Span, limits []shard.LimitStatus, into *shard.Decision) {
	passed := now - k.heard
	*into = k.decision
	into.Age = max(1, now-k.decided)
	into.RetryAfter = remainingWait(k.decision.RetryAfter, passed)
	into.Limits = limits
	copy(limits, k.decision.Limits)
	for i := range limits {
		limits[i].RetryAfter = remainingWait(limits[i].RetryAfter, passed)
	}
}

// remainingWait returns the rest of a wait, at least 1. A wait of 0 and limit.Never are returned unchanged.
func remainingWait(wait, passed limit.Span) limit.Span {
	if wait <= 0 {
		return wait
	}
	return max(1, wait-passed)
}

// denialBytes estimates the memory that a denial of the request would take.
func denialBytes(r *shard.Request, said *shard.Decision) int {
	const statusBytes, entryBytes = 256, 128
	size := statusBytes*len(said.Limits) + entryBytes*len(r.Entries)
	for i := range r.Entries {
		size += len(r.Entries[i].Key)
	}
	return size
}

// own makes the denial independent of the memory of the request and the answer, which may be part of something larger.
// It returns false if a status does not belong to the request.
func (k *denial) own(r *shard.Request, set *policy.Set) bool {
	k.namespace = strings.Clone(r.Namespace)
	k.entries = make([]shard.Entry, len(r.Entries))
	for i := range r.Entries {
		e := &r.Entries[i]
		p, _ := set.Lookup(e.Policy)
		k.entries[i] = shard.Entry{Policy: p.Name, Key: strings.Clone(e.Key), Cost: e.Cost, Tier: strings.Clone(e.Tier)}
	}
	said := k.decision.Limits
	k.decision.Limits = make([]shard.LimitStatus, len(said))
	at := 0
	for i := range said {
		for at < len(k.entries) && (k.entries[at].Policy != said[i].Policy || k.entries[at].Key != said[i].Key) {
			at++
		}
		if at == len(k.entries) {
			return false
		}
		k.decision.Limits[i] = said[i]
		k.decision.Limits[i].Policy, k.decision.Limits[i].Key = k.entries[at].Policy, k.entries[at].Key
		k.decision.Limits[i].Limit = strings.Clone(said[i].Limit)
	}
	return true
}
