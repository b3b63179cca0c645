package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Lease is a policy with a lease and one limit. Beside the other load, and at its own pace, clients spend from it, each
// from one node some times in a row, so that the nodes hold leases.
type Lease struct {
	Policy string
	Limit  LeasedLimit
}

// lessees are the clients of one Lease, all for one key, and what they were answered. If nothing of the limit comes
// back, a key that is used up is followed by another one.
type lessees struct {
	run *run
	of  Lease

	mu      sync.Mutex
	keys    [][]*Spend // of each key so far; the last one is being spent from
	denials int        // of the last key
}

const (
	lesseesEach  = 4                      // clients of a Lease
	lesseeBurst  = 20                     // checks in a row at one node, at most
	lesseeAtOnce = 5 * time.Millisecond   // between two of a burst, at most
	lesseeRest   = 200 * time.Millisecond // between two bursts, at most
)

func (r *run) newLessees(of Lease) *lessees {
	return &lessees{run: r, of: of, keys: make([][]*Spend, 1)}
}

// name returns the name of a key.
func (l *lessees) name(number int) string {
	return fmt.Sprintf("%sleased%d", l.run.prefix, number)
}

// newest returns the number of the key that is being spent from.
func (l *lessees) newest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys) - 1
}

// work is one client, until the run stops.
func (l *lessees) work(number int) {
	random := rand.New(rand.NewPCG(l.run.plan.Seed, uint64(1_000_000+number)))
	for {
		node := random.IntN(len(l.run.plan.Addresses))
		for range lesseeBurst {
			if s := l.spend(node); !s.Allowed || !l.run.rest(time.Duration(random.Int64N(int64(lesseeAtOnce)))) {
				break
			}
		}
		if !l.run.rest(time.Duration(random.Int64N(int64(lesseeRest)))) {
			return
		}
	}
}

// spend asks a node once for a unit.
func (l *lessees) spend(node int) *Spend {
	ctx, cancel := context.WithTimeout(context.Background(), l.run.plan.Deadline)
	defer cancel()
	c, number := l.run.caller, l.newest()
	s := &Spend{Cost: 1, Called: time.Since(l.run.began)}
	reply, err := c.limits[node].Check(ctx, connect.NewRequest(&stintv1.CheckRequest{
		Entries: []*stintv1.Entry{{Policy: l.of.Policy, Key: l.name(number)}}}))
	s.Returned = time.Since(l.run.began)
	if err == nil {
		d := reply.Msg.GetDecision()
		s.Decided, s.Allowed, s.Leased, s.At = true, d.GetAllowed(), d.GetLeased(),
			d.GetDecidedAt().AsTime().UnixMicro()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[number] = append(l.keys[number], s)
	if number == len(l.keys)-1 && s.Decided && !s.Allowed && l.of.Limit.Period == 0 {
		if l.denials++; l.denials >= denialsEnough {
			l.keys, l.denials = append(l.keys, nil), 0
		}
	}
	return s
}

// settle judges what was admitted, once the clients have ended. Before, it fills one window, now that nothing fails: of
// that, nearly all must be admitted. What does not come back must be counted.
func (l *lessees) settle(ctx context.Context) {
	if limit := l.of.Limit; limit.Period > 0 && !limit.Slides {
		l.fill()
	}
	ctx, cancel := context.WithTimeout(ctx, l.run.plan.Settle)
	defer cancel()
	for number, all := range l.keys {
		wrong, _ := l.of.Limit.Judge(all)
		if l.of.Limit.Period == 0 {
			wrong = append(wrong, l.counted(ctx, number))
		}
		for _, err := range wrong {
			l.run.book.find(err)
		}
	}
}

// counted compares what a key has counted with what it has admitted.
func (l *lessees) counted(ctx context.Context, number int) error {
	k := &key{policy: l.of.Policy, name: l.name(number)}
	final, err := l.run.readUsed(ctx, k)
	if err != nil {
		return finding(unsettled, "%v: cannot be read after the faults: %v", k, err)
	}
	admitted := uint64(0)
	for _, s := range l.keys[number] {
		if s.Allowed {
			admitted += s.Cost
		}
	}
	if final < admitted {
		return finding(forgotten, "%v: %d admitted for certain, but %d counted", k, admitted, final)
	}
	return nil
}

// wasted is the part of a window, in percent, that leases may keep from those who want it.
const wasted = 1

// fill has clients ask all nodes for one window, as fast as they answer, and finds it under-admitted if some were
// denied although it had more than wasted left. It judges nothing if it saw no window begin.
func (l *lessees) fill() {
	begins := l.edge()
	if begins == 0 {
		return
	}
	period := l.of.Limit.Period.Microseconds()
	var clients sync.WaitGroup
	for i := range lesseesEach {
		clients.Go(func() {
			for node := i; ; node++ {
				s := l.spend(node % len(l.run.plan.Addresses))
				switch {
				case s.Decided && s.At >= begins+period-leasedLast.Microseconds():
					return
				case !s.Allowed:
					time.Sleep(lesseeAtOnce)
				}
			}
		})
	}
	clients.Wait()
	admitted, denials := uint64(0), 0
	for _, s := range l.keys[0] {
		if s.Allowed && s.At >= begins {
			admitted += s.Cost
		} else if s.Decided && s.At >= begins {
			denials++
		}
	}
	// Without denials the clients were too slow to want all of it.
	if quota := l.of.Limit.Quota; denials >= denialsEnough && admitted < quota-quota*wasted/100 {
		l.run.book.find(finding(underAdmitted, "%s: %d of %d were admitted in a window in which nothing failed",
			l.of.Policy, admitted, quota))
	}
}

// leasedLast is how long before its window the clients that fill it end.
const leasedLast = 500 * time.Millisecond

// edge waits until a window begins, and returns when in shard time. 0: no node answers.
func (l *lessees) edge() int64 {
	period := l.of.Limit.Period.Microseconds()
	first := int64(0)
	for late := time.Now().Add(l.run.plan.Settle); time.Now().Before(late); time.Sleep(lesseeAtOnce) {
		s := l.spend(0)
		switch {
		case !s.Decided || s.Leased:
		case first == 0:
			first = s.At
		case s.At/period > first/period:
			return s.At - s.At%period
		}
	}
	return 0
}
