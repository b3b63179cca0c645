package raftfsm

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/internal/sleep"
)

// preVoteEvery is the time between two requests for a pre-vote that was refused. raft itself asks once in an election
// timeout.
const preVoteEvery = heartbeatTimeout / 10

// RequestPreVote implements raft.WithPreVote. It asks again while the answer is no, for two timeouts: raft waits no
// longer, with its random election timeout.
//
// A voter refuses while it has a leader. Survivors notice at different times that theirs is gone, and of two only the
// one with the longer log can be elected. If that one notices first, it is refused, and if raft asked only once, the
// shard would have no owner until another election timeout is over.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse) error {
	for until := time.Now().Add(2 * heartbeatTimeout); ; {
		answer := raft.RequestPreVoteResponse{}
		err := onAnyConnection(func() error { return t.NetworkTransport.RequestPreVote(id, target, args, &answer) })
		*resp = answer
		//mutant:pre-vote-asked-once
		if err != nil || answer.Granted || answer.Term > args.Term || !time.Now().Add(preVoteEvery).Before(until) ||
			!sleep.For(t.waiting, preVoteEvery) {
			return err
		}
	}
}
