package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/sleep"
)

// setupPatience is how long the nodes may take until their first answer.
const setupPatience = 20 * time.Second

// chooseKeys draws names until every shard has some, and spreads the active keys over the shards.
func (r *run) chooseKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setupPatience)
	defer cancel()
	for range 64 {
		if err := r.draw(ctx); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.active) < r.plan.Keys {
		before := len(r.active)
		for id := range r.spare {
			if len(r.spare[id]) > 0 && len(r.active) < r.plan.Keys {
				r.active = append(r.active, r.takeSpare(id))
			}
		}
		if len(r.active) == before {
			return fmt.Errorf("verify: %d keys at one time are too many", r.plan.Keys)
		}
	}
	return nil
}

// draw creates a key with a new name and learns its shard from the first node that answers.
func (r *run) draw(ctx context.Context) error {
	r.mu.Lock()
	n := r.drawn
	r.drawn++
	r.mu.Unlock()
	target := r.plan.Targets[n%len(r.plan.Targets)]
	k := &key{policy: target.Policy, name: fmt.Sprintf("%s%d", r.prefix, n), quota: target.Quota,
		stale: target.Stale, shards: r.shards}
	switch a := r.persist(ctx, n, k, "", stintv1.Mode_MODE_PEEK); {
	case a.fate == admitted && (a.quota != k.quota || a.used != 0):
		return fmt.Errorf("key %v: %d used of %d, want 0 of %d", k, a.used, a.quota, k.quota)
	case a.fate == admitted:
		r.addSpare(k, a.place.shard)
		return nil
	case a.fate == denied:
		return fmt.Errorf("key %v is denied and was never used", k)
	case a.fate == wrong:
		return fmt.Errorf("key %v: %s %s", k, a.code, a.message)
	default:
		return fmt.Errorf("no node answers: %s: %s", a.code, a.message)
	}
}

func (r *run) addSpare(k *key, id uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k.home = r.shards.get(id)
	r.spare[id] = append(r.spare[id], k)
}

// takeSpare returns an unused key of a shard. The caller holds r.mu.
func (r *run) takeSpare(id uint32) *key {
	k := r.spare[id][0]
	r.spare[id] = r.spare[id][1:]
	r.keys = append(r.keys, k)
	return k
}

// choose picks a contended key.
func (r *run) choose(random *rand.Rand) *key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active[random.IntN(len(r.active))]
}

// replace replaces a full key by another key of the same shard. If there is none it draws one; if no node answers, the
// full one stays for now.
func (r *run) replace(ctx context.Context, old *key) {
	for range 2 {
		id := old.where().id
		r.mu.Lock()
		if len(r.spare[id]) > 0 {
			for i, k := range r.active {
				if k == old {
					r.active[i] = r.takeSpare(id)
				}
			}
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		drawing, cancel := context.WithTimeout(ctx, r.plan.Deadline)
		err := r.draw(drawing)
		cancel()
		if err != nil {
			return
		}
	}
}

// fillUp begins the time after the faults. It lasts until all keys are full, or as long as settling may take.
func (r *run) fillUp(ctx context.Context) {
	now := time.Now()
	for _, s := range r.shards.all() {
		s.heal(now)
	}
	r.pace.unbind()
	r.filled.Store(true)
	ctx, cancel := context.WithTimeout(ctx, r.plan.Settle)
	defer cancel()
	for !r.allFull() && sleep.For(ctx, 20*time.Millisecond) {
	}
}

func (r *run) allFull() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.active, func(k *key) bool { return !k.full() })
}
