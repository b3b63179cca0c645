package routing

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// marina is an archipelago with nodes that hold leases of one key under several policies. A judge that knows neither
// states nor leases places each unit at the shard time of the instant at which it was spent.
type marina struct {
	*archipelago
	ahead    int // how far a failover puts shard time ahead, at most; 0: no owner fails by itself
	revision policy.Revision

	judging sync.Mutex
	judges  map[string]*spendJudge // by policy
	at      *islet                 // that has decided about the key last
	leased  int                    // answers from leases
	decided int                    // answers of owners
	met     map[string]int
}

const marinaKey = "hot"

func newMarina(t testing.TB, seed uint64, ahead int) *marina {
	w := &marina{ahead: ahead, judges: make(map[string]*spendJudge), met: make(map[string]int)}
	w.archipelago = newArchipelagoOf(t, seed, w)
	for _, s := range w.shards {
		s.mu.Lock()
	}
	w.revise(0)
	for _, s := range w.shards {
		s.mu.Unlock()
	}
	return w
}

// revise puts policies in force. The caller holds the locks of all shards.
func (w *marina) revise(more uint64) {
	leased := func(name string, l limit.Limit) *policy.Policy {
		l.Quota += more
		if l.Algorithm == limit.TokenBucket {
			l.Initial = l.Quota
		}
		return &policy.Policy{Name: name, Retention: policy.DefaultRetention,
			Limits: []policy.Limit{{Name: "a", Limit: l}}, Lease: &policy.Lease{Units: 40, For: 2_000_000, Share: 50}}
	}
	set := policy.NewSet([]*policy.Policy{
		leased("window", limit.Limit{Algorithm: limit.FixedWindow, Quota: 400, Period: 20_000_000}),
		leased("log", limit.Limit{Algorithm: limit.SlidingLog, Quota: 300, Period: 20_000_000}),
		leased("bucket", limit.Limit{Algorithm: limit.TokenBucket, Quota: 200, Period: 1_000_000, Count: 10}),
	})
	w.judging.Lock()
	w.revision = policy.Revision{Version: w.revision.Version + 1, Set: set}
	w.judging.Unlock()
	for _, s := range w.shards {
		at := shard.Stamp{Position: shard.Position{Shard: s.id, Epoch: s.state.Epoch(), Seq: s.state.Seq() + 1},
			Now: s.time()}
		s.append(shard.EncodeBatch(at, shard.Adopt(roomy{s.state}, w.policies, w.revision, at)))
	}
	w.policies = set
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		w.restart(name, p.Limits[0].Limit)
	}
}

// restart forgets what was spent under a policy. What leases spend from now on still has to fit.
func (w *marina) restart(name string, l limit.Limit) {
	w.judging.Lock()
	defer w.judging.Unlock()
	most := l.Quota
	if before := w.judges[name]; before != nil {
		most = max(most, before.most)
	}
	w.judges[name] = &spendJudge{l: l, most: most}
}

// change revises the policies while everything goes on.
func (w *marina) change(more uint64) {
	for _, s := range w.shards {
		s.mu.Lock()
	}
	w.revise(more)
	for _, s := range w.shards {
		s.mu.Unlock()
	}
}

// committed is called under the lock of the shard, when a request is in its log.
func (w *marina) committed(s *islet, r *shard.Request, result *shard.Result) {
	if result.Err != nil {
		return
	}
	if len(r.Entries) > 0 {
		w.judging.Lock()
		w.at = s
		w.met[fmt.Sprint("op ", r.Op)]++
		w.judging.Unlock()
	}
	d := &result.Decision
	switch r.Op {
	case shard.Check:
		if d.Replayed {
			return
		}
		if d.Allowed {
			w.spent(s.state.Time(), &r.Entries[0], d.Limits[0].Quota)
		} else {
			w.judging.Lock()
			w.met["denied"]++
			w.judging.Unlock()
		}
	case shard.Lease:
		w.judging.Lock()
		if d.System.Lease.Units > 0 {
			w.met["granted"]++
		}
		w.judging.Unlock()
	case shard.PutOverride:
		w.judging.Lock()
		j := w.judges[r.Entries[0].Policy]
		j.most = max(j.most, *r.Adjustment.Override.Limits["a"].Quota)
		w.judging.Unlock()
	case shard.Reset, shard.SetUsed, shard.Forget:
		for _, name := range w.policies.Names() {
			if p, _ := w.policies.Lookup(name); r.Op == shard.Forget || r.Entries[0].Policy == name {
				w.restart(name, p.Limits[0].Limit)
			}
		}
	}
}

// spent has units judged. quota is the one under which they were admitted, 0 for a lease.
func (w *marina) spent(at limit.Time, e *shard.Entry, quota uint64) {
	w.judging.Lock()
	defer w.judging.Unlock()
	j := w.judges[e.Policy]
	if quota == 0 {
		quota = j.most
		w.leased++
	} else {
		w.decided++
	}
	if problem := j.spend(at, e.Cost, quota); problem != "" {
		w.Errorf("seed %d: at %d %d units of %s: %s", w.seed, at, e.Cost, e.Policy, problem)
	}
}

// told is called by a node that has answered from a lease.
func (w *marina) told(r *shard.Request, d *shard.Decision) {
	if !d.Leased() || d.Index != 0 || len(d.Limits) != 1 || !d.Limits[0].Allowed || d.Limits[0].Key != marinaKey {
		w.Errorf("seed %d: told %+v", w.seed, d)
	}
	w.judging.Lock()
	s := w.at
	w.judging.Unlock()
	s.mu.Lock()
	at := s.time()
	s.mu.Unlock()
	w.spent(at, &r.Entries[0], 0)
}

// holder makes a node that may hold leases, and vanishes with its life-th message. It may answer after that, as one
// that is cut off.
func (w *marina) holder(life int) *mortal {
	n := w.node(life)
	config := n.config
	config.Repeated = w.told
	config.Policies = func() *policy.Revision {
		w.judging.Lock()
		defer w.judging.Unlock()
		return new(w.revision)
	}
	n.Router = New(config)
	return n
}

// spendJudge adds up what was spent of one limit since it began to judge, at the instants at which that was.
type spendJudge struct {
	l       limit.Limit
	most    uint64 // the largest quota that a lease may be of
	at      limit.Time
	missing uint64 // of a bucket, in parts: one unit is Period
	all     []limit.Point
}

// spend adds units, and tells if they are too many under a quota.
func (j *spendJudge) spend(at limit.Time, units, quota uint64) string {
	j.all = append(j.all, limit.Point{At: at, Units: units})
	period := limit.Time(j.l.Period)
	used, most := uint64(0), quota
	switch j.l.Algorithm {
	case limit.TokenBucket:
		if at > j.at { // two shards may have told the time at once
			j.missing -= min(j.missing, uint64(at-j.at)*j.l.Count)
			j.at = at
		}
		j.missing += units * uint64(period)
		used, most = j.missing, quota*uint64(period)
	case limit.FixedWindow:
		used = j.since(at - at%period)
	case limit.SlidingLog:
		used = j.since(at - period + 1)
	}
	if used > most {
		return fmt.Sprintf("%d of %d were spent of %+v", used, most, j.l)
	}
	return ""
}

func (j *spendJudge) since(at limit.Time) (units uint64) {
	for i := len(j.all) - 1; i >= 0 && j.all[i].At >= at; i-- {
		units += j.all[i].Units
	}
	return units
}

// guest asks for the key at one node after the other, until stop is closed.
func (w *marina) guest(stop <-chan struct{}, lives func() int) {
	n := w.holder(lives())
	var used []*mortal
	for pace := 1; ; {
		select {
		case <-stop:
			for _, n := range append(used, n) {
				n.Close()
			}
			return
		case <-time.After(time.Duration(1+w.draw(pace)) * time.Millisecond):
		}
		if w.draw(200) == 0 {
			pace = []int{1, 10, 300}[w.draw(3)]
		}
		if n.dead() && w.draw(30) == 0 {
			used, n = append(used, n), w.holder(lives())
		}
		r := w.check(uint64(1 + w.draw(2)*w.draw(4)))
		if w.draw(3) == 0 && n.Repeat(&r, new(shard.Decision)) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		n.Decide(ctx, []shard.Request{r, w.check(1)})
		cancel()
	}
}

func (w *marina) check(cost uint64) shard.Request {
	return shard.Request{Op: shard.Check, Namespace: "n",
		Entries: []shard.Entry{{Policy: []string{"window", "log", "bucket"}[w.draw(3)], Key: marinaKey, Cost: cost}}}
}

// meddle changes the key by hand, and the policies, until stop is closed.
func (w *marina) meddle(stop <-chan struct{}) {
	n := w.holder(1 << 30)
	defer n.Close()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(w.draw(3000)) * time.Millisecond):
		}
		r := w.check(0)
		quota := uint64(1 + w.draw(500))
		switch w.draw(9) {
		case 0:
			r.Op = shard.Reset
		case 1:
			r.Op, r.Adjustment = shard.SetUsed, &shard.Adjustment{}
		case 2:
			r.Op, r.Adjustment = shard.Block, &shard.Adjustment{Until: now() + limit.Time(w.draw(3_000_000))}
		case 3, 4:
			r.Op, r.Adjustment = shard.PutOverride,
				&shard.Adjustment{Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}
		case 5:
			r.Op, r.Adjustment = shard.DeleteOverride, &shard.Adjustment{}
		case 6:
			r = shard.Request{Op: shard.Forget, Namespace: "n", Shard: shard.ID(w.draw(3)),
				Adjustment: &shard.Adjustment{Forget: marinaKey, Bills: true}}
		default:
			w.change(uint64(w.draw(20)))
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		n.Decide(ctx, []shard.Request{r})
		cancel()
	}
}

// Whatever fails or vanishes, and whatever is changed by hand meanwhile, leases admit no request above a limit. Holders
// and owners are killed between any two messages, and holders that are cut off go on to spend; messages are lost, late
// and doubled; owners' clocks jump, or slots move.
func TestLeasesAdmitNobodyAboveTheLimit(t *testing.T) {
	first, worlds := firstSeed(t), max(worldsToPlay()/2, 1)
	met := map[string]int{}
	for seed := first; seed < first+uint64(worlds); seed++ {
		synctest.Test(t, func(t *testing.T) {
			ahead := 400_000
			moves := seed%2 == 0
			if moves {
				ahead = 1
			}
			w := newMarina(t, seed, ahead)
			w.keys = []string{marinaKey}
			m := &mover{archipelago: w.archipelago}
			if moves {
				at := slot.Of("n", marinaKey)
				w.drivers.Go(func() { m.run(w.ashore, int(at)%moversOfAWorld, moversOfAWorld) })
			}
			stop := make(chan struct{})
			var guests sync.WaitGroup
			for range 8 {
				guests.Go(func() { w.guest(stop, func() int { return 1 + w.draw(100) }) })
			}
			guests.Go(func() { w.meddle(stop) })
			time.Sleep(90 * time.Second)
			close(stop)
			guests.Wait()
			w.settleDown()
			w.close()
			for what, n := range w.met {
				met[what] += n
			}
			met["leased"] += w.leased
			met["decided"] += w.decided
			met["moves"] += m.moves
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v", met)
	for _, what := range []string{"leased", "decided", "granted", fmt.Sprint("op ", shard.Reset),
		fmt.Sprint("op ", shard.SetUsed), fmt.Sprint("op ", shard.Block), fmt.Sprint("op ", shard.PutOverride)} {
		if worlds >= enoughWorlds/2 && met[what] < worlds {
			t.Errorf("too few in %d worlds: %s", worlds, what)
		}
	}
}

// A failover may put shard time 400 ms ahead (G4), and so begin the next window that much too early. A holder stops
// before that, so that nothing is spent in the new window beside all of its own units (X17).
func TestALeaseEndsBeforeAFailoverEndsItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window, ahead = 20 * time.Second, 400 * time.Millisecond
		w := newMarina(t, 1, 0)
		w.mu.Lock()
		w.calm = true
		w.mu.Unlock()
		n := w.holder(1 << 30)
		left := func() time.Duration { return window - time.Duration(now())*time.Microsecond%window }
		check := w.check(1)
		check.Entries[0].Policy = "window"
		time.Sleep(left() - 1900*time.Millisecond)
		for left() > ahead+20*time.Millisecond {
			n.Decide(t.Context(), []shard.Request{check})
			time.Sleep(20 * time.Millisecond)
		}
		if w.leased == 0 {
			t.Fatal("nothing was leased")
		}
		w.at.mu.Lock()
		w.at.append(shard.EncodeEpochOpen(w.at.id, w.at.time(), shard.LevelNewest))
		w.at.ahead = limit.Time(ahead.Microseconds())
		w.at.mu.Unlock()
		time.Sleep(left() - ahead + 10*time.Millisecond)
		whole := w.check(400)
		whole.ID, whole.Entries[0].Policy = "whole", "window"
		if r := n.Decide(t.Context(), []shard.Request{whole})[0]; r.Err != nil || !r.Decision.Allowed {
			t.Errorf("all of the next window: %+v", r)
		}
		for range 5 {
			n.Repeat(&check, new(shard.Decision)) // the judge hears of it if a lease answers
		}
		n.Close()
		w.settleDown()
		w.close()
	})
}
