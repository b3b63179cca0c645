package raftfsm

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// load proposes to the current leader, each value once, until stop is closed. It returns the acknowledged entries and
// the number of proposals with an unknown outcome.
func load(f *fleet, stop <-chan struct{}) (acknowledged map[string]string, unclear int) {
	acknowledged = make(map[string]string)
	var o *owner
	for i := 0; ; i++ {
		select {
		case <-stop:
			return acknowledged, unclear
		case <-time.After(time.Millisecond):
		}
		if o = opened(f, o); o == nil {
			continue
		}
		k, v := fmt.Sprint("load", i), fmt.Sprint("value", i)
		switch err := o.put(k, v); {
		case err == nil:
			acknowledged[k] = v
		default:
			if e := (*shard.Error)(nil); !errors.As(err, &e) || e.MaybeApplied() {
				unclear++
			}
			o = nil
		}
	}
}

// opened returns o if it is not nil, otherwise an owner with a new epoch at the current leader, or nil if there is
// none.
func opened(f *fleet, o *owner) *owner {
	if o != nil {
		return o
	}
	for _, g := range f.groups {
		if !g.Leading() {
			continue
		}
		outcome, err := g.Propose(shard.EncodeEpochOpen(g.cfg.Replica.Shard, 1, shard.LevelNewest))()
		if err == nil && outcome.Dropped == shard.NotDropped {
			return &owner{g, shard.Stamp{Position: shard.Position{Shard: g.cfg.Replica.Shard, Epoch: outcome.Epoch},
				Now: outcome.Time}}
		}
	}
	return nil
}

// The leadership moves around under load: no acknowledged entry is lost, no refused entry is applied, and the shard is
// hardly ever without an owner.
func TestTransferUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		defer f.stop(t)
		f.net.Delay("", "", 500*time.Microsecond)
		f.found(t)
		leader := f.leader(t)
		stop, done := make(chan struct{}), make(chan struct{})
		var acknowledged map[string]string
		var unclear int
		go func() {
			defer close(done)
			acknowledged, unclear = load(f, stop)
		}()
		for i := range 12 {
			time.Sleep(50 * time.Millisecond)
			to := f.others(leader)[i%2]
			name := lone.Name(to)
			if i%3 == 0 {
				name = "" // the best candidate
			}
			began := time.Now()
			if err := f.groups[leader].Transfer(name); err != nil {
				t.Fatalf("transfer %d: %v", i, err)
			}
			if f.groups[leader].raft.State() == raft.Leader {
				t.Errorf("transfer %d ended well, and it still leads", i)
			}
			next := f.leader(t)
			if name != "" && next != to {
				t.Errorf("handed to %s, and %s leads", to, next)
			}
			if took := time.Since(began); took > heartbeatTimeout/2 {
				t.Errorf("transfer %d took %v", i, took)
			}
			leader = next
		}
		close(stop)
		<-done
		if len(acknowledged) < 100 {
			t.Errorf("only %d proposals were acknowledged", len(acknowledged))
		}
		f.agree(t, 0)
		f.groups[leader].View(func(s *shard.State) {
			for k, v := range acknowledged {
				if r, found := s.Lookup(k); !found || string(r.Value) != v {
					t.Errorf("%s was acknowledged as %q and is %q", k, v, r.Value)
				}
			}
			if extra := s.Records() - len(acknowledged); extra < 0 || extra > unclear {
				t.Errorf("%d records without an acknowledgement, %d proposals were unclear", extra, unclear)
			}
		})
	})
}

// A transfer that cannot succeed is refused before it costs anything: the leader continues.
func TestTransferIsRefusedForWhoCannotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		defer f.stop(t)
		f.found(t)
		leader := f.leader(t)
		g := f.groups[leader]
		o := lead(t, g)
		followers := f.others(leader)
		dead, learner := lone.Name(followers[0]), Replica{lone.Shard, 8}
		f.create(t, "n4", learner)
		change(t, g.AddLearner, g, learner.Name("n4"))
		f.open(t, "n4", learner)
		f.net.Isolate(dead)
		time.Sleep(2 * heartbeatTimeout)
		for what, to := range map[string]string{"a dead voter": dead, "a learner": learner.Name("n4"),
			"itself": g.name, "a stranger": "n9/1/9"} {
			if err := g.Transfer(to); err == nil || !g.Leading() {
				t.Errorf("handing over to %s: %v, leading %v", what, err, g.Leading())
			}
			o.mustPut(t, 1)
		}
		if err := f.groups[followers[1]].Transfer(""); err != nil {
			t.Errorf("a follower, which has nothing to hand over: %v", err)
		}
		if err := g.Transfer(""); err != nil {
			t.Errorf("there is one voter who can: %v", err)
		}
		if next := f.leader(t); next != followers[1] {
			t.Errorf("%s leads, only %s could", next, followers[1])
		}
	})
}

// R9: a transfer to a replica that just stopped answering makes raft wait for it and refuse proposals meanwhile. A
// caller that looked only at raft's answer would retry forever; Transfer reports what must be done (ErrStuck).
func TestStuckTransferIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		defer f.stop(t)
		f.found(t)
		leader := f.leader(t)
		g := f.groups[leader]
		o := lead(t, g)
		silent := lone.Name(f.others(leader)[0])
		f.net.Isolate(silent)
		o.mustPut(t, 3)
		time.Sleep(10 * time.Second) // raft retries rarely by now
		begin := func() error {
			return g.raft.LeadershipTransferToServer(raft.ServerID(silent), raft.ServerAddress(silent)).Error()
		}
		await.Until(t, "a transfer that does not end", func() bool {
			return errors.Is(begin(), raft.ErrLeadershipTransferInProgress)
		})
		err := g.Transfer("")
		if !errors.Is(err, ErrStuck) || !g.Leading() {
			t.Fatalf("leading %v, and %v", g.Leading(), err)
		}
		mustCode(t, "a proposal meanwhile", o.put("refused", ""), shard.Unavailable)

		// If it were shut down now, raft would leak two goroutines, and goleak would fail the tests.
		f.net.Heal()
		await.Until(t, "the end of raft's transfer", func() bool { return g.Transfer("") == nil })
		lead(t, f.groups[f.leader(t)]).mustPut(t, 5)
	})
}

// A transfer of this package that is under way is not reported as stuck.
func TestTransferUnderWayIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		defer f.stop(t)
		f.found(t)
		g := f.groups[f.leader(t)]
		lead(t, g)
		to := lone.Name(f.others(f.leader(t))[0])
		time.Sleep(heartbeatTimeout)
		f.net.Cut(g.name, to)
		f.net.Cut(to, g.name)
		for range 3 {
			began := time.Now()
			err := g.Transfer(to)
			if err == nil || errors.Is(err, ErrStuck) {
				t.Errorf("handing over to a replica that just fell silent: %v", err)
			}
			if took := time.Since(began); took > 2*heartbeatTimeout {
				t.Errorf("it took %v", took)
			}
		}
	})
}
