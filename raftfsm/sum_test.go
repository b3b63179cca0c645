package raftfsm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// sum makes the owner log a sum entry.
func (o *owner) sum(t *testing.T) {
	t.Helper()
	o.at.Seq++
	o.at.Now++
	if outcome, err := o.Propose(shard.EncodeSum(o.at))(); err != nil || outcome.Dropped != shard.NotDropped {
		t.Fatalf("a sum entry: %+v, %v", outcome, err)
	}
}

// flip flips one bit of a record in the memory of a replica.
func flip(t *testing.T, g *Group, key string) {
	t.Helper()
	g.View(func(s *shard.State) {
		r, found := s.Lookup(key)
		if !found {
			t.Fatalf("%s: no record of %q", g.name, key)
		}
		r.Value[0] ^= 1
	})
}

// snapshotsOf lists the names of a node's snapshots, finished or not.
func (f *fleet) snapshotsOf(t *testing.T, node string) []string {
	t.Helper()
	files := f.worlds[node].disk
	names, err := files.List(files.PathJoin(f.worlds[node].dir, snapshotsName, lone.snapshotsDir(), snapshotsInner))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (f *fleet) allGoOn(t *testing.T) {
	t.Helper()
	for node, w := range f.worlds {
		select {
		case err := <-w.fatal:
			t.Errorf("%s stopped: %v", node, err)
		default:
		}
	}
}

// One bit flips in the memory of the owner or of a follower. No replica halts at the differing sums, now or at the next
// start, and every replica can install the log that holds them.
func TestASumThatNobodyMatchesHaltsNobody(t *testing.T) {
	for name, owner := range map[string]bool{"of the owner": true, "of a follower": false} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet, leader string) {
				bad := leader
				if !owner {
					bad = f.others(leader)[0]
				}
				o := lead(t, f.groups[leader])
				o.mustPut(t, 5)
				time.Sleep(time.Second)
				flip(t, f.groups[bad], key(0))
				if err := o.put(key(0), "another value"); err != nil {
					t.Fatal(err)
				}
				o.sum(t)
				time.Sleep(3 * time.Second)
				f.allGoOn(t)
				if err := o.put(key(1), value(1)); err != nil {
					t.Error("after the sum:", err)
				}

				for _, node := range f.others() {
					f.halt(t, node)
				}
				for _, node := range []string{"n1", "n2", "n3"} {
					f.open(t, node, lone)
				}
				o = lead(t, f.groups[f.leader(t)])
				o.mustPut(t, 5)
				f.agree(t, 5)
				f.allGoOn(t)
			})
		})
	}
}

// A convicted replica is not opened again, in this process or the next. The others continue, and its data stays on its
// disk.
func TestAConvictedReplicaDoesNotComeBack(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		o := lead(t, f.groups[leader])
		o.mustPut(t, 5)
		f.agree(t, 5) // its log has them all
		bad := f.others(leader)[0]
		f.shutdown(bad)
		why := Conviction{Why: "its records were others", At: time.Now()}
		if err := f.worlds[bad].Convict(lone, why); err != nil {
			t.Fatal(err)
		}
		if err := f.worlds[bad].Convict(lone, Conviction{Why: "again", At: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		refused := func() {
			t.Helper()
			_, err := f.tryOpen(t, bad, GroupConfig{Replica: lone})
			if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "convicted") ||
				!strings.Contains(err.Error(), why.Why) {
				t.Errorf("a convicted replica is opened: %v", err)
			}
		}
		refused()
		o.mustPut(t, 5)

		for _, node := range []string{"n1", "n2", "n3"} {
			f.halt(t, node)
		}
		for _, node := range []string{"n1", "n2", "n3"} {
			if node == bad {
				refused()
			} else {
				f.open(t, node, lone)
			}
		}
		if got := f.worlds[bad].Convictions(); len(got) != 1 || got[lone].Why != why.Why ||
			!got[lone].At.Equal(why.At) {
			t.Errorf("convictions after the restart: %+v", got)
		}
		lead(t, f.groups[f.leader(t)]).mustPut(t, 6)
		log, err := openLogStore(f.worlds[bad].db, lone.logPrefix())
		if err != nil {
			t.Fatal(err)
		}
		if last, err := log.LastIndex(); err != nil || last < 5 {
			t.Errorf("of the convicted replica's log there is %d, %v", last, err)
		}
	})
}

// The flipped bit is noticed when a snapshot is written: the snapshot is dropped and the observer is told. The group
// continues.
func TestASnapshotOfAFlippedRecordIsNotKept(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet, leader string) {
		o := lead(t, f.groups[leader])
		o.mustPut(t, 5)
		bad := f.others(leader)[0]
		f.shutdown(bad)
		var told error
		g, err := f.tryOpen(t, bad, GroupConfig{Replica: lone,
			Observer: Observer{Diverged: func(err error) { told = err }}})
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "its log is replayed", func() bool { return g.Status().AppliedIndex >= o.Status().AppliedIndex })
		flip(t, g, key(3))
		if err := g.Snapshot(); err == nil || !errors.Is(told, shard.ErrDiverged) {
			t.Errorf("a snapshot of a record that flipped: %v; told was %v", err, told)
		}
		if kept := f.snapshotsOf(t, bad); len(kept) > 0 || g.Status().SnapshotIndex != 0 {
			t.Errorf("there are snapshots: %v, up to entry %d", kept, g.Status().SnapshotIndex)
		}
		flip(t, g, key(3))
		if err := g.Snapshot(); err != nil || len(f.snapshotsOf(t, bad)) != 1 {
			t.Errorf("a snapshot of good records: %v, there are %v", err, f.snapshotsOf(t, bad))
		}
		o.mustPut(t, 6)
		f.allGoOn(t)
	})
}
