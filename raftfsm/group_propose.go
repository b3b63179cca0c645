package raftfsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// Bounds of a proposal.
const (
	proposalsInFlight = 8                // a ceiling; the actor runs one, beside changes of members
	enqueueTimeout    = 2 * time.Second  // to get a place in the log
	proposalTimeout   = 10 * time.Second // from then until it ends; raft has been seen to forget one
)

// settlement is the result of a proposal.
type settlement struct {
	outcome shard.Outcome
	err     error // a *shard.Error
}

// Propose submits one entry to the log and returns; wait reports its result. Propose blocks while the log is busy.
// Entries are installed in the order of the Propose calls, which one goroutine must make.
//
// The caller may call wait at most once, and it always returns. Its error is a *shard.Error: NotOwner and Unavailable
// say that the entry is certainly in no log, UnknownOutcome that it may still be installed.
func (g *Group) Propose(payload []byte) (wait func() (shard.Outcome, error)) {
	if err := g.refusal(); err != nil {
		return refused(err)
	}
	if !g.enter() {
		return refused(unavailable("the shard's log is busy: too many proposals are under way"))
	}
	future := g.raft.Apply(payload, enqueueTimeout)
	settled := make(chan settlement, 1)
	go func() {
		settled <- g.settle(future)
		<-g.proposals
	}()
	return func() (shard.Outcome, error) { return g.await(settled) }
}

// enter takes one of the tokens for requests to raft, for which Shutdown waits; leave returns it. enter returns false
// if it gets no token in time.
func (g *Group) enter() bool {
	select {
	case g.proposals <- struct{}{}:
		return true
	default:
	}
	select {
	case g.proposals <- struct{}{}:
		return true
	case <-time.After(enqueueTimeout):
		return false
	}
}

// refusal says why a proposal is not even tried.
func (g *Group) refusal() *shard.Error {
	switch {
	case g.guard.fault.cause() != nil:
		return unavailable("this node's stores can no longer be trusted")
	case g.closing.Load():
		return unavailable("this node is closing the shard")
	case g.stores.LowDisk():
		return unavailable(fmt.Sprintf("less than %d MiB of disk are free: make room", diskFloorBytes>>20))
	}
	return nil
}

func refused(err *shard.Error) func() (shard.Outcome, error) {
	return func() (shard.Outcome, error) { return shard.Outcome{}, err }
}

// settle waits for raft. A future without an error says only that raft has finished with the entry. The fsm's answer
// must be there too; if it is missing, the fsm failed in a way that it must not survive.
func (g *Group) settle(future raft.ApplyFuture) settlement {
	if err := future.Error(); err != nil {
		return settlement{err: proposalError(err)}
	}
	outcome, ok := future.Response().(shard.Outcome)
	if !ok { //mutant:no-error-is-success
		err := fmt.Errorf("%s: entry %d was answered by %T", g.name, future.Index(), future.Response())
		g.guard.fault.fail(err)
		return settlement{err: unknown("the proposal may or may not take effect: " + err.Error())}
	}
	return settlement{outcome: outcome}
}

// await is the wait of a proposal. A proposal that it gives up keeps its token until raft has ended it.
func (g *Group) await(settled <-chan settlement) (shard.Outcome, error) {
	select {
	case s := <-settled:
		return s.outcome, s.err
	case <-time.After(proposalTimeout):
		return shard.Outcome{}, unknown(fmt.Sprintf("the proposal did not end within %v", proposalTimeout))
	case <-g.closed:
	}
	select {
	case s := <-settled: // it ended before the group did
		return s.outcome, s.err
	default:
		return shard.Outcome{}, unknown("the group was closed while the proposal was under way")
	}
}

// errLate is the error of what raft may still do.
var errLate = errors.New("it did not end in time: try again")

// ended waits for a future of raft, at most for a given time, and gives its token back when it has ended, however long
// that takes.
func (g *Group) ended(future raft.Future, most time.Duration) error {
	done := make(chan error, 1)
	go func() {
		done <- future.Error()
		<-g.proposals
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(most):
		return errLate
	case <-g.closed:
		return raft.ErrRaftShutdown
	}
}

// drain waits until no proposal is under way, for at most a given time, and lets no new one begin.
func (g *Group) drain(most time.Duration) {
	timeout := time.After(most)
	for range cap(g.proposals) {
		select {
		case g.proposals <- struct{}{}:
		case <-timeout:
			return
		}
	}
}
