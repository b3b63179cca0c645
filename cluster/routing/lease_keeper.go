package routing

import (
	"context"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// leaseAsk is one request of a keeper.
type leaseAsk struct {
	terms    shard.LeaseTerms
	at       leaseTime // before it was sent
	changes  uint64    // of the key
	revision uint64
	life     limit.Span // the longest life of the lease
}

// start has the key kept, if it is worth a lease and is not kept yet. The caller holds the lock.
func (l *leases) start(k *leasedKey, p *policy.Policy, now limit.Span) {
	if !k.kept && !l.closing.Load() && k.wants(p, now) > 0 {
		k.kept = true
		l.keepers.Go(func() { l.keep(k) })
	}
}

// keep asks for a lease of a key, renews it while the key is asked for often, and returns it. One keeper of a key asks
// at a time.
func (l *leases) keep(k *leasedKey) {
	for {
		ask, more := l.next(k)
		if !more {
			return
		}
		ctx, cancel := context.WithTimeout(l.ctx, leaseWithin)
		result := l.decide(ctx, []shard.Request{l.request(k, &ask)})[0]
		cancel()
		if l.hold(k, &ask, &result) {
			l.watch(k)
		} else if owed := k.owed(&ask, result.Err != nil); len(owed) > 0 {
			l.giveBack(owed, ask.life)
		}
	}
}

// next ends the lease of the key, and makes the request that returns it and asks for another one if the key is still
// asked for often. Once the request is sent, the former lease must not be spent. more is false if there is nothing to
// do.
func (l *leases) next(k *leasedKey) (ask leaseAsk, more bool) {
	s := l.stripe(k.name.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	ask = leaseAsk{terms: shard.LeaseTerms{Holder: l.holder}, at: l.clock(), changes: k.changes,
		life: policy.LeaseForMax}
	if k.lease != nil {
		ask.terms = k.lease.returned(l.holder)
		k.lease = nil
	}
	if revision := l.revision(); revision != nil && !l.closing.Load() {
		if p, known := revision.Set.Lookup(k.name.policy); known && p.Lease != nil {
			if units := k.wants(p, ask.at.boot); units > 0 {
				ask.terms.Number, ask.terms.Units = l.number.Add(1), units
				ask.revision, ask.life = revision.Version, p.Lease.For
				k.since, k.demand = ask.at.boot, 0
			}
		}
	}
	if ask.terms.Number == 0 && ask.terms.Returned == 0 {
		if k.kept = false; k.forgotten {
			delete(s.keys, k.name)
		}
		return ask, false
	}
	return ask, true
}

func (l *leases) request(k *leasedKey, ask *leaseAsk) shard.Request {
	r := k.name.request(ask.terms)
	if ask.terms.Number != 0 {
		r.NotAfter = ask.at.wall + limit.Time(leaseWithin/time.Microsecond)
	}
	return r
}

// hold begins to spend what was granted, and reports whether something was. A lease whose answer is unknown, or comes
// after a change of its key, is not held.
func (l *leases) hold(k *leasedKey, ask *leaseAsk, result *shard.Result) bool {
	s := l.stripe(k.name.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ask.terms.Number == 0 {
		return false
	}
	d, now := &result.Decision, l.clock()
	if result.Err != nil || d.System == nil || d.System.Lease == nil || d.System.Lease.Units == 0 {
		k.calm = now.boot + ask.life
		return false
	}
	if k.changes != ask.changes || l.closing.Load() { //mutant:lease-held-from-before-a-change
		return false
	}
	length := limit.Span(d.System.Lease.Ends - d.DecidedAt)
	lives := length - shard.LeaseMargin(length) //mutant:holder-spends-to-the-end
	k.lease = &lease{number: ask.terms.Number, units: d.System.Lease.Units, asked: ask.at, seen: ask.at.wall,
		//mutant:lease-counts-from-its-answer
		stops:    leaseTime{ask.at.boot + lives, ask.at.wall + limit.Time(lives)},
		revision: ask.revision, decision: k.answers(d)}
	return true
}

// answers returns what the lease answers: the state of the limits as of the grant. It shares no memory with d.
func (k *leasedKey) answers(d *shard.Decision) shard.Decision {
	said := shard.Decision{Allowed: true, DecidedAt: d.DecidedAt, Position: d.Position}
	said.Limits = make([]shard.LimitStatus, len(d.Limits))
	for i := range d.Limits {
		s := &said.Limits[i]
		*s = d.Limits[i]
		s.Policy, s.Key, s.Limit = k.name.policy, k.name.key, strings.Clone(s.Limit)
		s.Allowed, s.RetryAfter = true, 0
	}
	return said
}

// owed returns what may have been granted and is not held. If the request has failed, its return may have, too.
func (k *leasedKey) owed(ask *leaseAsk, failed bool) (owed []shard.Request) {
	t := ask.terms
	if t.Number != 0 { //mutant:unknown-grant-kept-from-others
		owed = append(owed, k.name.request(shard.LeaseTerms{Holder: t.Holder, Returned: t.Number}))
	}
	if t.Returned != 0 && failed {
		t.Number, t.Units = 0, 0
		owed = append(owed, k.name.request(t))
	}
	return owed
}

// watch waits until the lease is to be returned or renewed, or somebody else has returned it.
func (l *leases) watch(k *leasedKey) {
	s := l.stripe(k.name.key)
	for {
		s.mu.Lock()
		held, now := k.lease, l.clock()
		var rest limit.Span
		if held != nil {
			rest = min(k.asked+leaseIdle, held.stops.boot) - now.boot
		}
		done := held == nil || held.over || held.ebbs(now.boot) || rest <= 0 || l.closing.Load()
		s.mu.Unlock()
		if done {
			return
		}
		timer := time.NewTimer(time.Duration(rest+1) * time.Microsecond)
		select {
		case <-k.woken:
		case <-timer.C:
		}
		timer.Stop()
	}
}
