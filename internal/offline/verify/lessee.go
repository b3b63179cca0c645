package verify

import (
	"context"
	"math/rand/v2"
	"slices"
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

// lessees are the clients of one Lease, all for one key, and what they were answered.
type lessees struct {
	run *run
	of  Lease
	key string

	mu  sync.Mutex
	all []*Spend
}

const (
	lesseesEach  = 4 // clients of a Lease
	lesseeBurst  = 20
	lesseeAtOnce = 5 * time.Millisecond // between two of a burst, at most
	lesseeRest   = 200 * time.Millisecond
)

func (r *run) newLessees(of Lease) *lessees {
	return &lessees{run: r, of: of, key: r.plan.KeyPrefix + "leased"}
}

// work is one client, until the run stops.
func (l *lessees) work(number int) {
	random := rand.New(rand.NewPCG(l.run.plan.Seed, uint64(1_000_000+number)))
	for {
		node := random.IntN(len(l.run.plan.Addresses))
		for range lesseeBurst {
			if s := l.spend(node); !s.Allowed || !l.rest(time.Duration(random.Int64N(int64(lesseeAtOnce)))) {
				break
			}
		}
		if !l.rest(time.Duration(random.Int64N(int64(lesseeRest)))) {
			return
		}
	}
}

// rest reports whether the run goes on after a while.
func (l *lessees) rest(d time.Duration) bool {
	select {
	case <-l.run.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// spend asks a node once for a unit.
func (l *lessees) spend(node int) *Spend {
	ctx, cancel := context.WithTimeout(context.Background(), l.run.plan.Deadline)
	defer cancel()
	c := l.run.caller
	s := &Spend{Cost: 1, Called: time.Since(l.run.began)}
	reply, err := c.limits[node].Check(ctx, connect.NewRequest(&stintv1.CheckRequest{Namespace: c.namespace,
		Entries: []*stintv1.Entry{{Policy: l.of.Policy, Key: l.key}}}))
	s.Returned = time.Since(l.run.began)
	if err == nil {
		d := reply.Msg.GetDecision()
		s.Decided, s.Allowed, s.Leased, s.At = true, d.GetAllowed(), d.GetLeased(), d.GetDecidedAt().AsTime().UnixMicro()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
	return s
}

// settle judges what was admitted, once the clients have ended. Then it fills one window, now that nothing fails: of
// that, nearly all must be admitted.
func (l *lessees) settle() {
	if !l.of.Limit.Slides {
		l.fill()
	}
	wrong, _ := l.of.Limit.Judge(l.all)
	for _, err := range wrong {
		l.run.book.find(err)
	}
}

// wasted is the part of a window, in percent, that leases may keep from those who want it.
const wasted = 1

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
	for _, s := range l.all {
		if s.Allowed && s.At >= begins {
			admitted += s.Cost
		} else if s.Decided && s.At >= begins {
			denials++
		}
	}
	// Without denials the clients were too slow to want all of it.
	if quota := l.of.Limit.Quota; denials >= denialsEnough && admitted < quota-quota*wasted/100 {
		l.run.book.find(finding(underAdmitted, "%s: %d of %d were admitted in a window in which nothing failed", l.of.Policy, admitted, quota))
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

// countLeased adds what holders answered to a result.
func (r *run) countLeased(out *Result) {
	for _, l := range r.lessees {
		out.Leased += uint64(len(slices.DeleteFunc(slices.Clone(l.all), func(s *Spend) bool { return !s.Leased })))
	}
}
