package main

import (
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

// atStep changes the status after it was asked for this many times.
func atStep(changes map[int]func(*stintv1.StatusResponse)) func(*stintv1.StatusResponse) {
	asked := 0
	return func(s *stintv1.StatusResponse) {
		asked++
		if change := changes[asked]; change != nil {
			change(s)
		}
	}
}

func TestDrainWaitsUntilNothingIsOwned(t *testing.T) {
	f := newCluster()
	f.step = atStep(map[int]func(*stintv1.StatusResponse){
		1: func(s *stintv1.StatusResponse) { s.Nodes[1].Owns = 2 },
		3: func(s *stintv1.StatusResponse) { s.Nodes[1].Owns = 1 },
		4: func(s *stintv1.StatusResponse) { s.Nodes[1].Owns = 0 },
	})
	addr := f.serve(t)
	transcript(t, "drain", 0, "cluster", "drain", "node-2", "--addr", addr)
	if n := f.count(`drain "node-2" true`); n != 4 {
		t.Errorf("asked %q", f.asked)
	}
	transcript(t, "drain_off", 0, "cluster", "drain", "node-2", "--off", "--addr", addr)
	if f.count(`drain "node-2" false`) != 1 {
		t.Errorf("asked %q", f.asked)
	}
	if code, stdout, stderr := stint("cluster", "drain", "node-2", "--until-restart", "--addr", addr); code != 0 ||
		f.count(`drain "node-2" true until restart`) != 1 {
		t.Errorf("%d %s%s, asked %q", code, stdout, stderr, f.asked)
	}
	if code, _, stderr := stint("cluster", "drain", "node-2", "--until-restart", "--off", "--addr", addr); code != 2 {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestDrainDoesNotWaitForEver(t *testing.T) {
	f := newCluster()
	addr := f.serve(t)
	transcript(t, "drain_late", 1, "cluster", "drain", "node-2", "--wait", "1ms", "--addr", addr)
	transcript(t, "drain_no_wait", 0, "cluster", "drain", "node-2", "--wait", "0", "--addr", addr)
	f.err = &shard.Error{Code: shard.Conflict, Message: "no other node could own its shards"}
	transcript(t, "drain_refused", 1, "cluster", "drain", "node-2", "--addr", addr)
	code, stdout, _ := stint("cluster", "drain", "node-2", "--wait", "0", "-o", "json", "--addr", newCluster().serve(t))
	if code != 0 || stdout != `{"shardsLeft":1}`+"\n" {
		t.Errorf("as JSON: %d %s", code, stdout)
	}
}

// With several addresses any node may answer, so it would be chance which one is drained.
func TestDrainOfWhoeverAnswersIsRefused(t *testing.T) {
	f := newCluster()
	addr := f.serve(t)
	code, _, stderr := stint("cluster", "drain", "--addr", addr+","+addr)
	if code != 2 || len(f.asked) > 0 || !strings.Contains(stderr, "say which node") {
		t.Errorf("%d %s after %q", code, stderr, f.asked)
	}
	if code, stdout, _ := stint("cluster", "drain", "--off", "--addr", addr); code != 0 ||
		!strings.Contains(stdout, "the node at "+addr) {
		t.Errorf("%d %s", code, stdout)
	}
}

func TestRemoveNodeWaitsUntilItIsRemoved(t *testing.T) {
	f := newCluster()
	f.step = atStep(map[int]func(*stintv1.StatusResponse){
		2: func(s *stintv1.StatusResponse) { s.Nodes[1].State = "leaving" },
		3: func(s *stintv1.StatusResponse) { s.Nodes[1].Replicas = 1 },
		4: func(s *stintv1.StatusResponse) { s.Nodes[1].Replicas, s.Nodes[1].State = 0, "removed" },
	})
	addr := f.serve(t)
	transcript(t, "remove_node", 0, "cluster", "remove-node", "node-2", "--yes", "--addr", addr)
	transcript(t, "remove_node_again", 0, "cluster", "remove-node", "node-2", "--addr", addr)
	if f.count("remove node-2") != 1 {
		t.Errorf("asked %q", f.asked)
	}
	// Now node-1 is the only node.
	transcript(t, "remove_node_last", 1, "cluster", "remove-node", "node-1", "--addr", addr)
	transcript(t, "remove_node_unknown", 1, "cluster", "remove-node", "node-9", "--addr", addr)
	if f.count("remove") != 1 {
		t.Errorf("asked %q", f.asked)
	}
}

// Shards would keep fewer copies, without consent.
func TestRemoveNodeAsks(t *testing.T) {
	f := newCluster()
	transcript(t, "remove_node_asks", 1, "cluster", "remove-node", "node-2", "--addr", f.serve(t))
	if f.count("remove") > 0 {
		t.Errorf("asked %q before anybody agreed", f.asked)
	}
}

// A node that does not answer may still run, out of reach.
func TestRemoveNodeSaysWhatADeadNodeDoes(t *testing.T) {
	f := newCluster()
	f.status.Nodes[1].Alive = false
	f.step = atStep(map[int]func(*stintv1.StatusResponse){
		2: func(s *stintv1.StatusResponse) { s.Nodes[1].State = "removed" },
	})
	transcript(t, "remove_node_dead", 0, "cluster", "remove-node", "node-2", "--yes", "--addr", f.serve(t))
}

func TestRemoveNodeDoesNotWaitForEver(t *testing.T) {
	f := newCluster()
	transcript(t, "remove_node_late", 1, "cluster", "remove-node", "node-2", "--yes", "--wait", "1ms",
		"--addr", f.serve(t))
}

// growing is a cluster in which slots move to a third shard.
func growing() *fakeCluster {
	f := newCluster()
	f.status.Shards[0].Slots, f.status.Shards[1].Slots = []*stintv1.SlotRange{{First: 0, Last: 511}},
		[]*stintv1.SlotRange{{First: 512, Last: 1023}}
	f.status.WantedShards, f.status.ShardsRevision, f.status.SlotsToMove = 3, 7, 341
	f.status.SlotMoves = []*stintv1.SlotMove{
		{Slot: 342, From: 0, To: 2},
		{Slot: 853, From: 1, To: 2, Waits: "2 open holds with keys of other slots"},
	}
	return f
}

func TestShardsShowsWhereTheSlotsAreAndWhatWaits(t *testing.T) {
	f := growing()
	transcript(t, "shards", 0, "shards", "--addr", f.serve(t))
	transcript(t, "shards_json", 0, "shards", "-o", "json", "--addr", f.serve(t))
}

func TestShardsWaitsUntilAllSlotsHaveMoved(t *testing.T) {
	f := growing()
	f.step = atStep(map[int]func(*stintv1.StatusResponse){
		4: func(s *stintv1.StatusResponse) { s.SlotsToMove, s.SlotMoves = 1, s.SlotMoves[:1] },
		5: func(s *stintv1.StatusResponse) { s.SlotsToMove, s.SlotMoves = 0, nil },
	})
	transcript(t, "shards_moved", 0, "shards", "3", "--addr", f.serve(t))
	f = growing()
	transcript(t, "shards_late", 1, "shards", "3", "--wait", "1ms", "--addr", f.serve(t))
	transcript(t, "shards_too_many", 1, "shards", "257", "--addr", f.serve(t))
}

// What the command asks for is of the moment in which it looked.
func TestShardsOfAnotherCommandStay(t *testing.T) {
	f := growing()
	f.step = atStep(map[int]func(*stintv1.StatusResponse){2: func(s *stintv1.StatusResponse) {
		s.WantedShards, s.ShardsRevision = 5, 8
	}})
	transcript(t, "shards_of_another", 1, "shards", "2", "--addr", f.serve(t))
}

// Nobody waits for a number that another command has replaced: it will not come.
func TestShardsEndsWhenAnotherNumberIsAskedFor(t *testing.T) {
	f := growing()
	f.step = atStep(map[int]func(*stintv1.StatusResponse){4: func(s *stintv1.StatusResponse) {
		s.WantedShards, s.ShardsRevision = 5, 9 // after this command's revision 8
	}})
	transcript(t, "shards_replaced", 1, "shards", "3", "--addr", f.serve(t))
}

// A server that cannot be asked for a moment does not end the wait: the change goes on.
func TestWaitingOutlivesAServersAbsence(t *testing.T) {
	f := newCluster()
	asked := 0
	f.step = func(s *stintv1.StatusResponse) {
		asked++
		f.err = nil
		switch asked {
		case 2:
			f.err = &shard.Error{Code: shard.Unavailable, Message: "no majority"}
		case 3:
			s.Nodes[1].State = "removed"
		}
	}
	if code, _, stderr := stint("cluster", "remove-node", "node-2", "--yes", "--addr", f.serve(t)); code != 0 ||
		asked != 3 {
		t.Errorf("%d %s after %d questions", code, stderr, asked)
	}
}

// A removal announces its consequences, and asks for consent if fewer copies are left.
func TestARemovalSaysHowManyCopiesAreLeft(t *testing.T) {
	for _, c := range []struct {
		copies, stay int
		want         string
	}{{3, 3, ""}, {3, 4, ""}, {4, 3, ""}, {1, 1, ""}, {5, 5, ""}, {3, 2, "keeps 1 of its 3 copies, and stops counting"},
		{2, 1, "keeps 1 of its 2 copies"}, {5, 4, "keeps 3 of its 5 copies; to keep them"}} {
		s := &stintv1.Shard{Replicas: []*stintv1.Replica{{Role: "learner"}}}
		for range c.copies {
			s.Replicas = append(s.Replicas, &stintv1.Replica{Voter: true})
		}
		got := losesCopies(&stintv1.StatusResponse{Shards: []*stintv1.Shard{{}, s}}, c.stay)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d copies, %d nodes stay: %q, want %q", c.copies, c.stay, got, c.want)
		}
	}
}
