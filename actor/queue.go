package actor

import "github.com/stint-io/stint/shard"

// lane is how urgent a call is: what gives units back goes before what takes them, and that before what only looks
// (SEMANTICS R20). A queue longer than a batch must not keep held units from coming back.
type lane int

const (
	settling lane = iota
	deciding
	reading
	lanes
)

// laneOf is decided by a call's first request: the requests of a call are of one kind but for checks that only look.
func laneOf(requests []shard.Request) lane {
	switch requests[0].Op {
	case shard.Settle, shard.Conclude, shard.ResolveHome, shard.FinishLeg, shard.Acknowledge:
		return settling
	case shard.Peek, shard.Get, shard.Fetch, shard.ReadAudit, shard.AskHome:
		return reading
	}
	return deciding
}

// queue is the calls that wait for a batch, in each lane the oldest first. The sequencer owns it.
type queue [lanes][]*call

func (q *queue) push(c *call) { q[laneOf(c.requests)] = append(q[laneOf(c.requests)], c) }

func (q *queue) len() (n int) {
	for _, calls := range q {
		n += len(calls)
	}
	return n
}

// first is the lane of the call that goes next. There must be one.
func (q *queue) first() lane {
	for at, calls := range q {
		if len(calls) > 0 {
			return lane(at)
		}
	}
	panic("actor: nothing queues")
}

// each visits all calls, the next one first.
func (q *queue) each(do func(*call)) {
	for _, calls := range q {
		for _, c := range calls {
			do(c)
		}
	}
}
