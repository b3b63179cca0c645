package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/bubble"
	"github.com/stint-io/stint/shard"
)

// stood is what a node says when it stands for election by evidence.
const stood = "standing for election: the leader's process has died"

// inQuietWorld plays a story in a world in which nothing else happens.
func inQuietWorld(t *testing.T, nodes int, play func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Run(t, func(t *testing.T) {
		p := &plan{seed: 1, founders: nodes, nodes: nodes, shards: 2, replicas: nodes, delay: time.Millisecond,
			replaceAfter: 5 * time.Minute, snapshotEvery: 250, calm: true}
		w, err := newWorld(p, t.TempDir(), new(tally), slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		w.begin()
		if w.awaitReady(time.Minute) {
			time.Sleep(20 * time.Second) // the shards are led by the nodes that the table wants
			play(t, w)
		}
		close(w.healing)
		w.end()
		for _, err := range w.errs {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(w.story.text())
		}
	})
}

// epochs is the owner of each shard and its epoch.
func (w *world) epochs(t *testing.T) map[shard.ID]string {
	t.Helper()
	s, err := w.status()
	if err != nil {
		t.Fatal(err)
	}
	owned := make(map[shard.ID]string)
	for _, one := range s.Shards {
		owned[shard.ID(one.Id)] = fmt.Sprint(one.Owner, " in epoch ", one.Epoch)
	}
	return owned
}

// parties returns the machine that owns a data shard, and the others.
func (w *world) parties(t *testing.T) (owner *machine, others []*machine) {
	t.Helper()
	s, err := w.status()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range w.everybody() {
		if m.id == s.Shards[0].Owner {
			owner = m
		} else {
			others = append(others, m)
		}
	}
	if owner == nil {
		t.Fatalf("nobody owns a shard: %+v", s.Shards)
	}
	return owner, others
}

// awayFor returns how long it takes until a machine answers for every shard.
func (w *world) awayFor(t *testing.T, m *machine) time.Duration {
	t.Helper()
	began := time.Now()
	for time.Since(began) < 10*time.Second {
		if w.unanswered(m.life.Load()) == nil {
			return time.Since(began)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("it does not answer")
	return time.Since(began)
}

// load asks a machine for units as fast as it answers, until stop is called.
func (w *world) load(m *machine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for l := m.life.Load(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
			l.Decide(ctx, []shard.Request{{Op: shard.Check, Namespace: shard.DefaultNamespace,
				Entries: []shard.Entry{{Policy: "hits", Key: "hits a", Cost: 1}}}})
		}
	}()
	return func() { cancel(); <-done }
}

// When the process of an owner dies, its shards are owned by another node at once, though it is busy.
func TestTheShardsOfAProcessThatDiesAreServedAtOnce(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		inQuietWorld(t, nodes, func(t *testing.T, w *world) {
			for range 3 {
				owner, others := w.parties(t)
				before := w.epochs(t)
				stop := w.load(others[0])
				time.Sleep(500 * time.Millisecond)
				owner.hold()
				owner.crash(true)
				if away := w.awayFor(t, others[0]); away > 400*time.Millisecond { // no heartbeat timeout is over
					t.Errorf("of %d nodes: shards were away for %v after the death of %s", nodes, away, owner.id)
				}
				stop()
				time.Sleep(time.Second)
				for id, now := range w.epochs(t) {
					if was := before[id]; now != was && !strings.HasPrefix(was, owner.id+" ") {
						t.Errorf("shard %s was of %s, which lives, and is of %s", id, was, now)
					}
				}
				owner.restart()
				owner.release()
				time.Sleep(20 * time.Second)
			}
			if n := strings.Count(w.story.text(), stood); n < 3 {
				t.Errorf("%d times a node stood for election, of 3 deaths", n)
			}
		})
	}
}

// What looks like the death of an owner to some of the voters, and lasts less than the heartbeat timeout or is not seen
// by a majority, deposes no owner: each shard keeps its owner and its epoch.
func TestNobodyIsDeposedWhileAMajorityHearsIt(t *testing.T) {
	// long is past most heartbeat timeouts (650 to 1,300 ms). Of the questions that the planner's node asks each 500 ms
	// it ends at most two, so the silence that the planner sees is at most 1.5 s, and it takes leads away after 2 s.
	const long = 950 * time.Millisecond
	for _, c := range []struct {
		what     string
		nodes    int
		timeouts bool // heartbeats may be missed
		do       func(w *world, owner *machine, others []*machine)
	}{
		{"the link to one voter is cut, and refuses", 3, false, func(w *world, owner *machine, others []*machine) {
			w.net.Break(owner.addr, others[0].addr)
			time.Sleep(long)
			w.net.Mend(owner.addr, others[0].addr)
		}},
		{"the links to two voters of five are", 5, false, func(w *world, owner *machine, others []*machine) {
			for _, other := range others[:2] {
				w.net.Break(owner.addr, other.addr)
			}
			time.Sleep(long)
			for _, other := range others[:2] {
				w.net.Mend(owner.addr, other.addr)
			}
		}},
		{"a link flaps", 3, false, func(w *world, owner *machine, others []*machine) {
			for i := range 40 {
				w.net.Break(owner.addr, others[0].addr)
				time.Sleep(time.Duration(3*i) * time.Millisecond)
				w.net.Mend(owner.addr, others[0].addr)
				time.Sleep(time.Duration(3*i) * time.Millisecond)
			}
		}},
		{"both links flap, in turns", 3, true, func(w *world, owner *machine, others []*machine) {
			for i := range 40 {
				w.net.Break(owner.addr, others[i%2].addr)
				time.Sleep(time.Duration(20+3*(i/2)) * time.Millisecond)
				w.net.Mend(owner.addr, others[i%2].addr)
			}
		}},
		{"one link breaks as the other one is mended", 3, false, func(w *world, owner *machine, others []*machine) {
			for i := range 12 { // of equals only one would stand
				w.net.Break(owner.addr, others[i%2].addr)
				time.Sleep(time.Duration(1+i/2) * time.Millisecond / 2) // before the other one has answered
				w.net.Mend(owner.addr, others[i%2].addr)
				w.net.Break(owner.addr, others[1-i%2].addr)
				time.Sleep(20 * time.Millisecond)
				w.net.Mend(owner.addr, others[1-i%2].addr)
				time.Sleep(2 * time.Second)
			}
		}},
		{"all its connections end, and are made again", 3, false, func(w *world, owner *machine, others []*machine) {
			for range 10 {
				for _, other := range others {
					w.net.Break(owner.addr, other.addr)
					w.net.Mend(owner.addr, other.addr)
				}
				time.Sleep(300 * time.Millisecond)
			}
		}},
		{"it pauses for less than 300 ms", 3, false, func(w *world, owner *machine, _ []*machine) {
			for range 4 {
				resume := owner.clock.Pause()
				w.net.Cut(owner.addr, "")
				w.net.Cut("", owner.addr)
				time.Sleep(290 * time.Millisecond)
				w.net.Mend(owner.addr, "")
				w.net.Mend("", owner.addr)
				resume()
				time.Sleep(time.Second)
			}
		}},
	} {
		t.Log(c.what)
		inQuietWorld(t, c.nodes, func(t *testing.T, w *world) {
			owner, others := w.parties(t)
			before := w.epochs(t)
			stop := w.load(owner)
			c.do(w, owner, others)
			time.Sleep(long)
			stop()
			if after := w.epochs(t); !c.timeouts && fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%s: the owners were %v and are %v", c.what, before, after)
			}
			if n := strings.Count(w.story.text(), stood); n > 0 {
				t.Errorf("%s: %d times a replica stood for election", c.what, n)
			}
		})
	}
}

// A node that comes back gets its shards again three seconds after another one took them. If it dies again just before,
// it does not get them: the hand-over would fail, and take an election timeout.
func TestNothingIsHandedOverToANodeThatHasDied(t *testing.T) {
	inQuietWorld(t, 3, func(t *testing.T, w *world) {
		for _, before := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond} {
			owner, others := w.parties(t)
			owner.hold()
			owner.crash(true)
			w.awayFor(t, others[0])
			owner.restart()
			time.Sleep(3*time.Second - before)
			owner.crash(true)
			time.Sleep(2 * time.Second)
			owner.restart()
			owner.release()
			time.Sleep(20 * time.Second)
		}
		if strings.Contains(w.story.text(), "could not be handed over") {
			t.Error("a shard was handed over to a node that had died")
		}
	})
}

// Where a leader goes in another way than by the death of its process, no node stands for election by evidence.
func TestNobodySucceedsALeaderThatGoesInOrder(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(t *testing.T, w *world, owner *machine, others []*machine)
	}{
		{"it hands over while a link is cut", func(t *testing.T, w *world, owner *machine, others []*machine) {
			w.net.Break(owner.addr, others[1].addr)
			if err := w.drain(owner, true); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			w.net.Mend(owner.addr, others[1].addr)
			time.Sleep(5 * time.Second)
			if s, err := w.status(); err != nil || s.Shards[0].Owner == owner.id {
				t.Errorf("it has not handed over: %v", err)
			}
		}},
		{"it stops in order", func(_ *testing.T, _ *world, owner *machine, _ []*machine) {
			owner.hold()
			owner.stop()
			owner.restart()
			owner.release()
		}},
		{"packets are dropped", func(t *testing.T, w *world, owner *machine, others []*machine) {
			w.net.Cut(owner.addr, "")
			w.net.Cut("", owner.addr)
			away := w.awayFor(t, others[0])
			if away > 4*time.Second || away < 600*time.Millisecond { // as long as heartbeats take (G10)
				t.Errorf("its shards were away for %v", away)
			}
			w.net.Mend(owner.addr, "")
			w.net.Mend("", owner.addr)
		}},
	} {
		t.Log(c.what)
		inQuietWorld(t, 3, func(t *testing.T, w *world) {
			owner, others := w.parties(t)
			c.do(t, w, owner, others)
			time.Sleep(3 * time.Second)
			w.awayFor(t, others[0])
			if n := strings.Count(w.story.text(), stood); n > 0 {
				t.Errorf("%s: %d times a replica stood for election", c.what, n)
			}
		})
	}
}

// A process that dies and is started again at once finds either another owner or its followers waiting. Either way its
// shards are back in time, and no owner is deposed afterwards.
func TestALeaderThatIsRestartedAtOnce(t *testing.T) {
	for _, down := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond} {
		inQuietWorld(t, 3, func(t *testing.T, w *world) {
			owner, others := w.parties(t)
			owner.hold()
			owner.crash(true)
			time.Sleep(down)
			owner.restart()
			owner.release()
			if away := w.awayFor(t, others[0]); away > 4*time.Second { // G10
				t.Errorf("down for %v: its shards were away for %v", down, away)
			}
			before := strings.Count(w.story.text(), stood)
			time.Sleep(3 * time.Second)
			if n := strings.Count(w.story.text(), stood) - before; n > 0 {
				t.Errorf("down for %v: %d times a replica stood for election after its shards were back", down, n)
			}
		})
	}
}
