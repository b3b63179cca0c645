package actor

import "github.com/stint-io/stint/shard"

// Replica is this node's copy of one shard, as seen by its actor. raftfsm.Group and the fakes of tests implement it.
type Replica interface {
	// Leading is a hint whether a proposal can succeed now. It never blocks.
	Leading() bool

	// Propose submits one entry to the log and returns; wait reports its result. Entries are installed in the order of
	// the Propose calls, which one goroutine makes. Propose may block while the log is busy.
	//
	// The error of wait is a *shard.Error: NotOwner and Unavailable mean that the entry is certainly in no log,
	// UnknownOutcome that it may still be installed. wait always returns: at the group's shutdown, or after a timeout
	// of its own.
	Propose(payload []byte) (wait func() (shard.Outcome, error))

	// View calls read while the committed state does not change. read must be short and must not keep references to the
	// state.
	View(read func(*shard.State))
}
