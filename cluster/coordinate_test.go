package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
)

// voyage is one operation that clients ask for, perhaps several times under its id.
type voyage struct {
	id      string // "" none
	number  int
	request shard.Request
	shards  []shard.ID
	costs   []uint64 // at each of them

	mu                                sync.Mutex
	allowed, denied, unknown, refused int // answers
	drawn                             string
}

func (w *archipelago) voyage(number int) *voyage {
	v := &voyage{number: number}
	if w.draw(2) == 0 {
		v.id = fmt.Sprintf("client-%d", number)
	}
	v.request = shard.Request{Op: shard.Check, Namespace: "n", ID: v.id}
	first := w.draw(3)
	count := 2 + w.draw(2)
	for i := range count {
		id := shard.ID((first + i) % 3)
		cost := uint64(1 + w.draw(3))
		v.shards, v.costs = append(v.shards, id), append(v.costs, cost)
		v.request.Entries = append(v.request.Entries,
			shard.Entry{Policy: "shared", Key: keyOn(id, fmt.Sprint("shared", w.draw(sharedKeys))), Cost: cost},
			shard.Entry{Policy: "own", Key: v.key(id), Cost: cost})
	}
	return v
}

// key is one that only this operation counts on.
func (v *voyage) key(id shard.ID) string { return keyOn(id, fmt.Sprint("own", v.number)) }

// ask has the operation carried out once, by a node that may vanish meanwhile.
func (v *voyage) ask(w *archipelago) {
	life := 1 << 30
	if w.draw(3) == 0 {
		life = w.draw(9)
	}
	node := w.node(life)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(100+w.draw(8000))*time.Millisecond)
	defer cancel()
	result := node.Decide(ctx, cloneRequests([]shard.Request{v.request}))[0]
	defer node.Close()
	if node.dead() {
		return // nobody hears it
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch err := result.Err; {
	case err == nil && result.Decision.Allowed:
		v.allowed++
		v.drawn = result.Decision.Operation.ID
	case err == nil:
		v.denied++
		v.drawn = result.Decision.Operation.ID
	case err.MaybeApplied():
		v.unknown++
	default:
		v.refused++
	}
	if err := result.Err; err == nil && len(result.Decision.Limits) != len(v.request.Entries) {
		w.Errorf("seed %d: %d statuses for %d entries", w.seed, len(result.Decision.Limits), len(v.request.Entries))
	}
}

// judge compares what was heard, what home has ruled, and what was counted.
func (v *voyage) judge(w *archipelago) {
	counted, free := 0, 0
	for i, id := range v.shards {
		s := w.shards[id]
		s.mu.Lock()
		switch used := s.used("own", v.key(id)); used {
		case 0:
			free++
		case v.costs[i]:
			counted++
		default:
			w.Errorf("seed %d: operation %d has counted %d of %d on shard %v", w.seed, v.number, used, v.costs[i], id)
		}
		s.mu.Unlock()
	}
	if counted > 0 && free > 0 {
		w.Errorf("seed %d: operation %d is counted on %d shards and not on %d", w.seed, v.number, counted, free)
	}
	switch {
	case v.allowed > 0 && counted == 0:
		w.Errorf("seed %d: operation %d was allowed and is not counted", w.seed, v.number)
	case v.denied > 0 && counted > 0:
		w.Errorf("seed %d: operation %d was denied and is counted", w.seed, v.number)
	case v.id == "" && v.refused > 0 && counted > 0:
		w.Errorf("seed %d: operation %d was told as not counted and is", w.seed, v.number)
	case v.id == "" && v.allowed+v.unknown == 0 && v.denied > 0 && counted > 0:
		w.Errorf("seed %d: operation %d is counted", w.seed, v.number)
	}
}

// sail lets a world live, and judges it.
func (w *archipelago) sail(count int) {
	var voyages []*voyage
	var group sync.WaitGroup
	for number := range count {
		v := w.voyage(number)
		voyages = append(voyages, v)
		asks := 1
		if v.id != "" {
			asks += w.draw(3)
		}
		for range asks {
			begin := time.Duration(w.draw(40_000)) * time.Millisecond
			if w.draw(2) == 0 {
				begin = time.Duration(number) * 300 * time.Millisecond
			}
			group.Go(func() {
				time.Sleep(begin)
				v.ask(w)
			})
		}
	}
	group.Wait()
	w.settleDown()
	sums := map[string]uint64{}
	for _, v := range voyages {
		v.judge(w)
		for i := range v.shards {
			s := w.shards[v.shards[i]]
			s.mu.Lock()
			sums[v.request.Entries[2*i].Key] += s.used("own", v.key(v.shards[i]))
			s.mu.Unlock()
		}
	}
	for _, s := range w.shards {
		for k := range sharedKeys {
			key := keyOn(s.id, fmt.Sprint("shared", k))
			s.mu.Lock()
			if used := s.used("shared", key); used != sums[key] {
				w.Errorf("seed %d: %q has used %d, the operations that are counted make %d", w.seed, key, used, sums[key])
			}
			s.mu.Unlock()
		}
	}
	w.close()
	for _, v := range voyages {
		w.heard.allowed += v.allowed
		w.heard.denied += v.denied
		w.heard.definite += v.refused
		w.heard.unknown += v.unknown
	}
}

// Whatever fails, and whoever vanishes: an operation is counted everywhere or nowhere, as its caller was told, nothing is
// admitted above a quota, and nothing is left open.
func TestAnOperationIsAllOrNothing(t *testing.T) {
	var all tally
	first, worlds := rand.Uint64(), 60
	if testing.Short() {
		worlds = 15
	}
	for i := range worlds {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			w := newArchipelago(t, seed)
			w.sail(40)
			all.allowed += w.heard.allowed
			all.denied += w.heard.denied
			all.definite += w.heard.definite
			all.unknown += w.heard.unknown
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("allowed, denied, refused, unknown: %v", all)
	if least := worlds; all.allowed < least || all.denied < least || all.definite < least || all.unknown < least/4 {
		t.Errorf("the worlds are too calm or too rough: %+v", all)
	}
}
