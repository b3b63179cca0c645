package raftfsm

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/shard"
)

// withDisks gives the fleet's first nodes disks that can hang. It returns the disks by node.
func (f *fleet) withDisks(t *testing.T, nodes int) map[string]*memfs.Disk {
	t.Helper()
	disks := make(map[string]*memfs.Disk)
	for i := range nodes {
		node, dir := nodeName(i), t.TempDir()
		disks[node] = memfs.NewDisk(memfs.New(dir))
		f.dirs[node], f.disks[node] = dir, disks[node]
	}
	return disks
}

// foundOnDisks creates a group of voters on n1 to n3 with disks that can hang, and makes its leader an owner.
func foundOnDisks(t *testing.T) (f *fleet, disks map[string]*memfs.Disk, leader string, o *owner) {
	t.Helper()
	f = newFleet()
	disks = f.withDisks(t, 3)
	f.found(t)
	leader = f.leader(t)
	return f, disks, leader, lead(t, f.groups[leader])
}

// shortly is too short for a write to be taken for a hung one.
const shortly = heartbeatTimeout / 3

// proposeBehind proposes an entry and reports when it was acknowledged.
func proposeBehind(o *owner, key, value string) (acknowledged *atomic.Bool, end chan error) {
	acknowledged, end = new(atomic.Bool), make(chan error, 1)
	wait := o.Propose(o.next(key, value))
	go func() {
		_, err := wait()
		acknowledged.Store(err == nil)
		end <- err
	}()
	return acknowledged, end
}

// The followers have an entry while the leader's own disk still writes it. It is not committed before that write is
// done.
func TestEntryIsReplicatedBesideTheLeadersFsyncAndCommittedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disks, leader, o := foundOnDisks(t)
		defer f.stop(t)
		o.mustPut(t, 5)
		committed := o.Status().CommitIndex

		disks[leader].Hang()
		acknowledged, end := proposeBehind(o, key(5), value(5))
		for _, node := range f.others(leader) {
			await.Until(t, "replication to "+node, func() bool { return f.groups[node].raft.LastIndex() > committed })
		}
		time.Sleep(shortly)
		for node, g := range f.groups {
			if got := g.Status().CommitIndex; got > committed {
				t.Errorf("%s knows entry %d as committed, and the leader's disk does not have it", node, got)
			}
		}
		if acknowledged.Load() {
			t.Error("acknowledged before the leader's disk had it")
		}
		disks[leader].Recover()
		if err := <-end; err != nil {
			t.Fatal(err)
		}
		f.agree(t, 6)
	})
}

// Once an entry is on the leader's own disk, one follower completes the majority: the other may hang.
func TestLeadersCopyCountsWhenItsDiskHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disks, leader, o := foundOnDisks(t)
		defer f.stop(t)
		behind := f.others(leader)[0]
		disks[behind].Hang()
		defer disks[behind].Recover()
		disks[leader].Slow(shortly)
		began := time.Now()
		o.mustPut(t, 1)
		if took := time.Since(began); took < shortly || took > 2*shortly {
			t.Errorf("an fsync of %v made an entry of %v", shortly, took)
		}
		disks[leader].Recover()
	})
}

// The configuration that leaves a group one voter is on that voter's disk before the voter commits alone.
func TestLastVoterCommitsNothingThatItsDiskDoesNotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		disks := f.withDisks(t, 2)
		defer f.stop(t)
		voters := []string{lone.Name("n1"), lone.Name("n2")}
		for _, node := range []string{"n1", "n2"} {
			f.create(t, node, lone, voters...)
			f.open(t, node, lone)
		}
		leader := f.leader(t)
		o := lead(t, f.groups[leader])
		o.mustPut(t, 5)
		other := f.others(leader)[0]
		_, index, err := o.Members()
		if err != nil {
			t.Fatal(err)
		}
		committed := o.Status().CommitIndex

		disks[leader].Hang()
		removed := make(chan error, 1)
		go func() { removed <- o.Remove(lone.Name(other), index) }()
		time.Sleep(shortly)
		if got := o.Status().CommitIndex; got > committed {
			t.Errorf("entry %d is committed, and no disk has it", got)
		}
		disks[leader].Recover()
		if err := <-removed; err != nil {
			t.Fatal(err)
		}

		disks[leader].Hang()
		acknowledged, end := proposeBehind(o, key(5), value(5))
		time.Sleep(shortly)
		if acknowledged.Load() {
			t.Error("the only voter acknowledged what its disk does not have")
		}
		disks[leader].Recover()
		if err := <-end; err != nil {
			t.Fatal(err)
		}
	})
}

// A leader's writes are on its disk before it takes part in a newer term: as a follower it will report which entries it
// holds.
func TestTermWaitsForWhatTheOldOneWrote(t *testing.T) {
	for name, store := range map[string]func(*guardedStable) error{
		"term": func(s *guardedStable) error { return s.SetUint64([]byte(keyCurrentTerm), 1000) },
		"vote": func(s *guardedStable) error {
			if err := s.store.SetUint64([]byte(keyVoteTerm), 1000); err != nil {
				return err
			}
			return s.Set([]byte(keyVoteFor), []byte("n2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := openWorld(t, t.TempDir(), memfs.New(t.TempDir()), "n1")
				defer w.close(t)
				var unsynced unsyncedWrites
				stable := &guardedStable{&stableStore{file: w.file, prefix: "test/"},
					&guard{fault: w.fault, watchdog: w.watchdog}, &unsynced}
				fsync, stored := make(chan struct{}), make(chan error, 1)
				unsynced.begin(7, func() { <-fsync })
				go func() { stored <- store(stable) }()
				synctest.Wait()
				select {
				case err := <-stored:
					t.Error("stored while entries were on their way to the disk")
					stored <- err
				default:
				}
				close(fsync)
				if err := <-stored; err != nil {
					t.Fatal(err)
				}
				unsynced.writes.Wait()
			})
		})
	}
}

// A leader acknowledges nothing more once its own disk fails, although its followers have the entry.
func TestFollowersDoNotCoverForTheLeadersDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, disks, leader, o := foundOnDisks(t)
		defer f.stop(t)
		o.mustPut(t, 5)
		disks[leader].Fail()
		err := o.put("lost", "or not")
		mustCode(t, "the entry on the failed disk", err, shard.UnknownOutcome)
		f.worlds[leader].mustStop(t)
		f.shutdown(leader)
		lead(t, f.groups[f.leader(t)]).mustPut(t, 10)
	})
}

func TestAheadAwaitsWhatIsNotAboveAnIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a unsyncedWrites
		var releases []chan struct{}
		for first := uint64(10); first <= 30; first += 10 {
			release := make(chan struct{})
			releases = append(releases, release)
			a.begin(first, func() { <-release })
		}
		a.await(9)
		var reached atomic.Uint64
		go func() { a.await(25); reached.Store(25) }()
		go func() { a.settle(); reached.Store(1000) }()
		close(releases[1]) // the second one first
		synctest.Wait()
		if got := reached.Load(); got != 0 {
			t.Errorf("%d was reached before 10 was", got)
		}
		close(releases[0])
		synctest.Wait()
		if got := reached.Load(); got != 25 {
			t.Errorf("reached %d, want 25", got)
		}
		close(releases[2])
		a.writes.Wait()
		a.settle()
		if len(a.pending) > 0 {
			t.Error("it keeps what is over")
		}
	})
}

func TestWhoCommitsAlone(t *testing.T) {
	voter := func(id raft.ServerID) raft.Server { return raft.Server{ID: id, Suffrage: raft.Voter} }
	learner := raft.Server{ID: "c", Suffrage: raft.Nonvoter}
	for _, c := range []struct {
		members []raft.Server
		want    bool
	}{
		{nil, true},
		{[]raft.Server{voter("a")}, true},
		{[]raft.Server{voter("a"), learner}, true},
		{[]raft.Server{voter("a"), voter("b")}, false},
		{[]raft.Server{voter("b")}, false},
	} {
		if got := isOnlyVoter("a", raft.Configuration{Servers: c.members}); got != c.want {
			t.Errorf("%v: %v", c.members, got)
		}
	}
}
