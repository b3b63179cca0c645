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

// laneOf places a call, which is decided as one, in its order: among those that only look if it changes nothing, among
// those that give back if it changes nothing else. So a read at the head of a call holds up no check behind it, and a
// settle in a call does not carry checks past those of others.
func laneOf(requests []shard.Request) lane {
	at := reading
	for i := range requests {
		switch laneOfOne(requests[i].Op) {
		case deciding:
			return deciding
		case settling:
			at = settling
		}
	}
	return at
}

func laneOfOne(op shard.Op) lane {
	switch op {
	case shard.Settle, shard.Conclude, shard.ResolveHome, shard.FinishLeg, shard.Acknowledge:
		return settling
	case shard.Peek, shard.Get, shard.Fetch, shard.ReadAudit, shard.AskHome, shard.ReadTally:
		return reading
	}
	return deciding
}

// queue is the calls that wait for a batch, in each lane the oldest first. The sequencer owns it.
type queue [lanes][]*call

func (q *queue) push(c *call) { q[c.lane] = append(q[c.lane], c) }

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
