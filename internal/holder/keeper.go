package holder

import (
	"context"
	"time"
)

// renewal is one request of a keeper.
type renewal struct {
	Ask
	at       Time          // before it was sent
	changes  uint64        // of the key then; if they have grown, the grant is not held
	revision uint64        // of the policies; 0 if no lease is asked for
	life     time.Duration // the longest life of the lease
}

// start has the key kept, if it is worth a lease and is not kept yet. The caller holds the lock of the key's stripe.
func (h *Holder[A]) start(k *key[A], t Terms, now time.Duration) {
	if !k.kept && !h.closing.Load() && k.wants(t, now) > 0 {
		k.kept = true
		h.keepers.Go(func() { h.keep(k) })
	}
}

// keep asks for a lease of a key, renews it while the key is asked for often, and returns it. One keeper of a key asks
// at a time.
func (h *Holder[A]) keep(k *key[A]) {
	for {
		r, more := h.next(k)
		if !more {
			return
		}
		ctx, cancel := context.WithTimeout(h.ctx, within)
		grant := h.config.Owner(ctx, []Ask{r.Ask})[0]
		cancel()
		if h.hold(k, &r, &grant) {
			h.watch(k)
		} else if owed := r.owed(grant.Failed); len(owed) > 0 {
			h.giveBack(owed, r.life)
		}
	}
}

// next ends the lease of the key, and makes the request that returns it and asks for another one if the key is still
// asked for often. Once the request is sent, the former lease must not be spent. more is false if there is nothing to
// do.
func (h *Holder[A]) next(k *key[A]) (r renewal, more bool) {
	s, now := h.stripe(k.name.Key), h.config.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	r = renewal{Ask: Ask{Name: k.name, Holder: h.name}, at: now, changes: k.changes, life: LifeMax}
	if k.lease != nil {
		r.Ask = k.lease.returned(k.name, h.name)
		k.lease = nil
	}
	if t, leased := h.config.Terms(k.name.Policy); leased && !h.closing.Load() {
		if units := k.wants(t, r.at.Boot); units > 0 {
			r.Number, r.Units, r.NotAfter = h.number.Add(1), units, r.at.Wall+within
			r.revision, r.life = t.Revision, t.For
			k.since, k.demand = r.at.Boot, 0
		}
	}
	if r.Number == 0 && r.Returned == 0 {
		if k.kept = false; k.forgotten {
			delete(s.keys, k.name)
		}
		return r, false
	}
	return r, true
}

// hold begins to spend what was granted, and reports whether something was. A lease is not held if its answer is
// unknown, or comes after a change of its key.
func (h *Holder[A]) hold(k *key[A], r *renewal, g *Grant[A]) bool {
	s, now := h.stripe(k.name.Key), h.config.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Number == 0 {
		return false
	}
	if g.Failed || g.Units == 0 {
		k.calm = now.Boot + max(r.life, g.Calm)
		return false
	}
	if k.changes != r.changes || h.closing.Load() { //mutant:lease-held-from-before-a-change
		return false
	}
	k.lease = &lease[A]{number: r.Number, units: g.Units, asked: r.at, seen: r.at.Wall,
		stops:    Time{r.at.Boot + g.Within, r.at.Wall + g.Within}, //mutant:lease-counts-from-its-answer
		revision: r.revision, answer: g.Answer}
	return true
}

// owed returns what may have been granted and is not held. If the request has failed, its return may have, too.
func (r *renewal) owed(failed bool) (owed []Ask) {
	if r.Number != 0 { //mutant:unknown-grant-kept-from-others
		owed = append(owed, Ask{Name: r.Name, Holder: r.Holder, Returned: r.Number})
	}
	if r.Returned != 0 && failed {
		owed = append(owed, Ask{Name: r.Name, Holder: r.Holder, Returned: r.Returned, Spent: r.Spent})
	}
	return owed
}

// watch waits until the lease is to be returned or renewed, or another goroutine has returned it.
func (h *Holder[A]) watch(k *key[A]) {
	s := h.stripe(k.name.Key)
	for {
		now := h.config.Clock()
		s.mu.Lock()
		held := k.lease
		var rest time.Duration
		if held != nil {
			rest = min(k.asked+idle, held.stops.Boot) - now.Boot
		}
		done := held == nil || held.over || held.ebbs(now.Boot) || rest <= 0 || h.closing.Load()
		s.mu.Unlock()
		if done {
			return
		}
		timer := time.NewTimer(rest + time.Microsecond)
		select {
		case <-k.woken:
		case <-timer.C:
		}
		timer.Stop()
	}
}
