package raftfsm

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/stint-io/stint/raftfsm/memnet"
)

// raft takes no more responses of a pipeline after the first refusal, and may be about to send: that must end.
func TestAPipelineWhoseResponsesNobodyTakesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		leader := newTransport(net.Listen("a"), quiet, func() bool { return false })
		follower := newTransport(net.Listen("b"), quiet, func() bool { return false })
		defer leader.Close()
		defer follower.Close()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for {
				select {
				case rpc := <-follower.Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{Term: 1}, nil)
				case <-stop:
					return
				}
			}
		}()
		p, err := leader.AppendEntriesPipeline("b", "b")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		started := time.Now()
		for err == nil {
			_, err = p.AppendEntries(&raft.AppendEntriesRequest{Term: 1}, new(raft.AppendEntriesResponse))
		}
		if took := time.Since(started); took > 2*rpcTimeout {
			t.Errorf("it took %v", took)
		}
	})
}
