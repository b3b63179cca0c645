package raftfsm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/shard"
)

// Each error with which raft can answer a proposal, and the outcome that is reported for it.
func TestProposalErrors(t *testing.T) {
	for err, want := range map[error]shard.Code{
		raft.ErrNotLeader:                    shard.NotOwner,
		raft.ErrEnqueueTimeout:               shard.Unavailable,
		raft.ErrLeadershipTransferInProgress: shard.Unavailable,

		raft.ErrLeadershipLost:                  shard.UnknownOutcome,
		raft.ErrRaftShutdown:                    shard.UnknownOutcome,
		raft.ErrAbortedByRestore:                shard.UnknownOutcome,
		errors.New("input/output error"):        shard.UnknownOutcome,
		raft.ErrLogNotFound:                     shard.UnknownOutcome,
		fmt.Errorf("node is not the leader"):    shard.UnknownOutcome, // only its text matches
		raft.ErrNothingNewToSnapshot:            shard.UnknownOutcome,
		raft.ErrUnsupportedProtocol:             shard.UnknownOutcome,
		fmt.Errorf("in: %w", raft.ErrNotLeader): shard.NotOwner,
	} {
		got := proposalError(err)
		if got.Code != want || got.MaybeApplied() != (want == shard.UnknownOutcome) {
			t.Errorf("%v became code %d, want %d", err, got.Code, want)
		}
	}
}

// answer is a future with a fixed result.
type answer struct {
	err      error
	response any
}

func (a answer) Error() error  { return a.err }
func (a answer) Response() any { return a.response }
func (a answer) Index() uint64 { return 12 }

// A future without an error is not enough for success: it must have an Outcome.
func TestForeignResponseIsFatal(t *testing.T) {
	for _, response := range []any{nil, 7, errors.New("no"), &shard.Outcome{}} {
		calls := 0
		g := &Group{name: "n1/1/1", guard: &guard{fault: &diskLatch{logger: quiet.to, fatal: func(error) { calls++ }}}}
		s := g.settle(answer{response: response})
		var unclear *shard.Error
		if !errors.As(s.err, &unclear) || unclear.Code != shard.UnknownOutcome || calls != 1 {
			t.Errorf("response %v: %v, fatal called %d times", response, s.err, calls)
		}
		if refused := g.refusal(); refused == nil || refused.Code != shard.Unavailable {
			t.Errorf("afterwards: %v", refused)
		}
	}
}

// An entry that cannot be installed halts the replica: it neither answers nor installs later entries.
func TestEntryThatCannotBeInstalledHalts(t *testing.T) {
	w := openWorld(t, t.TempDir(), nil, "n1")
	g := w.loneGroup(t)
	o := lead(t, g)
	o.mustPut(t, 2)
	applied := g.Status().AppliedIndex
	var unclear *shard.Error
	if _, err := g.Propose([]byte("not an entry"))(); !errors.As(err, &unclear) || !unclear.MaybeApplied() {
		t.Errorf("a corrupt entry ended with %v", err)
	}
	w.mustStop(t)
	if got := g.Status().AppliedIndex; got != applied {
		t.Errorf("entry %d was installed after a corrupt one", got)
	}
	g.Shutdown()
	w.close(t)
	// Nor after a restart: the entry is still there.
	w = openWorld(t, w.dir, nil, "n1")
	g = w.openGroup(t, GroupConfig{Replica: lone, Lone: true})
	w.mustStop(t)
	g.Shutdown()
	w.close(t)
}
