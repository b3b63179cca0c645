package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/shard"
)

// The policies with leases, a log and a window of the same size, have one key each.
const (
	spentQuota  = 24
	spentPeriod = 20 * time.Second
)

var spentPolicies = []string{"spent_log", "spent_window"}

// spend is one check of a key that nodes lease.
type spend struct {
	verify.Spend
	policy string
}

// spender asks for keys so often that the nodes hold leases of them.
type spender struct {
	w      *world
	chance *rand.Rand
	all    []*spend
}

func newSpender(w *world) *spender {
	return &spender{w: w, chance: rand.New(rand.NewPCG(w.plan.seed, 1000))}
}

// run asks one node some times in a row, and then another.
func (s *spender) run(stop chan struct{}) {
	for {
		rest := time.Duration(s.chance.ExpFloat64() * float64(4*time.Second))
		lives := s.w.lives()
		if len(lives) > 0 {
			l, policy := lives[s.chance.IntN(len(lives))], spentPolicies[s.chance.IntN(len(spentPolicies))]
			for range 4 + s.chance.IntN(16) {
				if o := s.ask(l, policy, uint64(1+s.chance.IntN(3))); !o.Allowed {
					break // else most of the load would be denials
				}
				time.Sleep(time.Duration(10+s.chance.IntN(120)) * time.Millisecond)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(rest):
		}
	}
}

func (s *spender) ask(l *life, policy string, cost uint64) *spend {
	ctx, cancel := context.WithTimeout(l.ctx, deadline)
	defer cancel()
	o := &spend{policy: policy}
	o.Cost, o.Called = cost, time.Since(s.w.began)
	r := l.Decide(ctx, []shard.Request{{Op: shard.Check, Namespace: shard.DefaultNamespace,
		Entries: []shard.Entry{{Policy: policy, Key: "hot", Cost: cost}}}})[0]
	o.Returned = time.Since(s.w.began)
	if r.Err == nil && !l.dead.Load() { // a dead process's answer reaches no client
		o.Decided, o.Allowed, o.Leased, o.At = true, r.Decision.Allowed, r.Decision.Leased(),
			int64(r.Decision.DecidedAt)
	}
	s.all = append(s.all, o)
	return o
}

// judge checks that, whichever node holds leases, a window of the shard's time never admits more than the limit.
func (s *spender) judge() (errs []error, jumps int) {
	for _, policy := range spentPolicies {
		var mine []*verify.Spend
		for _, o := range s.all {
			if o.policy == policy {
				mine = append(mine, &o.Spend)
			}
		}
		limit := verify.LeasedLimit{Quota: spentQuota, Period: spentPeriod, Slides: policy == "spent_log"}
		wrong, n := limit.Judge(mine)
		jumps += n
		for _, err := range wrong {
			errs = append(errs, fmt.Errorf("%s: %w", policy, err))
		}
		for i := 0; i < len(mine) && len(wrong) > 0; i++ {
			errs = append(errs, fmt.Errorf("    %v", mine[i]))
		}
	}
	return errs, jumps
}

// countSpent says how leases were met.
func (t *tally) countSpent(all []*spend, jumps int) {
	t.add("spent: the owner's time jumped", jumps)
	for _, s := range all {
		switch {
		case !s.Decided:
			t.note("spent: no answer")
		case s.Leased:
			t.note("spent: from a lease")
		case s.Allowed:
			t.note("spent: admitted by the owner")
		default:
			t.note("spent: denied")
		}
	}
}

// What a node spent from leases before its process died stays spent, in the log and in the window.
func TestADeadNodeHasSpentItsLeases(t *testing.T) {
	inQuietWorld(t, 3, func(t *testing.T, w *world) {
		s := newSpender(w)
		for i := range 6 {
			window := time.Duration(time.Now().UnixNano()) % spentPeriod
			time.Sleep(2*spentPeriod - window) // nothing of earlier rounds counts
			holder, policy := w.everybody()[i%3], spentPolicies[i%2]
			leased := 0
			for range 20 {
				if s.ask(holder.life.Load(), policy, 1).Leased {
					leased++
				}
				time.Sleep(10 * time.Millisecond)
			}
			if leased < 5 {
				t.Fatalf("%d answers from leases", leased)
			}
			holder.hold()
			holder.crash(true)
			time.Sleep(5 * time.Second)
			other := w.lives()[0]
			for s.ask(other, policy, 1).Allowed {
			}
			holder.restart()
			holder.release()
		}
		over, _ := s.judge()
		for _, err := range over {
			t.Error(err)
		}
		admitted := 0
		for _, o := range s.all {
			if o.Allowed {
				admitted++
			}
		}
		if admitted < 5*spentQuota/2 { // a dead node has spent a share, and no more
			t.Errorf("%d were admitted", admitted)
		}
	})
}
