package actor

import "github.com/stint-io/stint/shard"

// Replica is this node's copy of one shard, as its actor sees it. raftfsm.Group implements it, and so do the fakes
// of tests.
type Replica interface {
	// Leading is a hint: whether a proposal has a chance now. It never blocks.
	Leading() bool

	// Propose gives one entry its place in the log and returns; wait tells what became of it. Entries are installed in
	// the order of their Propose calls, which one goroutine makes. Propose may block while the log is busy.
	//
	// wait's error is a *shard.Error: NotOwner or Unavailable say that the entry is certainly in no log;
	// UnknownOutcome says that it may yet be installed. wait always ends: with the group's shutdown, or a time-out
	// of its own.
	Propose(payload []byte) (wait func() (shard.Outcome, error))

	// View runs read while the committed state stands still. read must be short and must not keep what it saw.
	View(read func(*shard.State))
}
