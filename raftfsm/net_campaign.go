package raftfsm

import (
	"github.com/hashicorp/raft"
)

// campaign is an order to stand for election at once, for the goroutine that passes incoming requests to raft.
type campaign struct {
	may    func() bool // asked by that goroutine, while raft handles no request
	stands chan bool   // the answer; room for one
}

// campaign has raft stand for election at once, if may agrees, and reports whether it does. raft does so when a leader
// that hands its leadership over asks it to, and knows no other way. It then checks nothing: it would stand as a
// leader or as a learner too, without a pre-vote, and the others vote although they have a leader.
func (t *transport) campaign(may func() bool) (stands bool) {
	c := campaign{may, make(chan bool, 1)}
	select {
	case t.campaigns <- c:
	case <-t.closed:
		return false
	}
	select {
	case stands = <-c.stands:
	case <-t.closed:
	}
	return stands
}

// begin makes raft a candidate if it may be. What may looks at changes with the requests that raft handles. So no
// other request is passed on meanwhile, and raft has handled all earlier ones once it has answered the first of these
// two, which is of a term long over and changes nothing.
func (t *transport) begin(c campaign) {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax} //mutant:candidate-of-no-version
	//mutant:candidate-overtakes-its-own-vote 2
	c.stands <- c.may() && t.pass(&raft.AppendEntriesRequest{RPCHeader: header}) && c.may() &&
		t.pass(&raft.TimeoutNowRequest{RPCHeader: header})
}

// pass has raft handle a request of this replica's own, and reports whether it did.
func (t *transport) pass(request any) bool {
	answer := make(chan raft.RPCResponse, 1) // raft must not wait for its reader
	select {
	case t.calls <- raft.RPC{Command: request, RespChan: answer}:
	case <-t.closed:
		return false
	}
	select {
	case a := <-answer:
		return a.Error == nil
	case <-t.closed:
		return false
	}
}
