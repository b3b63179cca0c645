package actor

import "github.com/stint-io/stint/shard"

// queueClass is the urgency of a call: calls that give units back go before calls that take them, and those before
// calls that only read (R20). A queue longer than a batch must not keep held units from coming back.
type queueClass int

const (
	settling queueClass = iota
	deciding
	reading
	queueClasses
)

// classOf returns the class of a call. Its requests are decided in order as one unit: reading if it changes nothing,
// settling if its only changes give units back, otherwise deciding. So a read at the start of a call does not delay the
// checks after it, and a settle in a call does not let its checks overtake those of other calls.
func classOf(requests []shard.Request) queueClass {
	at := reading
	for i := range requests {
		switch classOfOne(&requests[i]) {
		case deciding:
			return deciding
		case settling:
			at = settling
		}
	}
	return at
}

func classOfOne(r *shard.Request) queueClass {
	switch r.Op {
	case shard.Lease:
		if r.System != nil && r.System.Lease != nil && r.System.Lease.Number == 0 { // it returns one, and takes none
			return settling
		}
	case shard.Settle, shard.Conclude, shard.ResolveHome, shard.FinishLeg, shard.Acknowledge, shard.ChangeEvents:
		return settling
	case shard.Peek, shard.Get, shard.Fetch, shard.ReadAudit, shard.AskHome, shard.ReadTally, shard.ReadUsage,
		shard.ReadEventPage:
		return reading
	}
	return deciding
}

// queue holds the calls that wait for a batch, in each class the oldest first. The sequencer owns it.
type queue [queueClasses][]*call

func (q *queue) push(c *call) { q[c.class] = append(q[c.class], c) }

func (q *queue) len() (n int) {
	for _, calls := range q {
		n += len(calls)
	}
	return n
}

// first returns the class of the call that goes next. The queue must not be empty.
func (q *queue) first() queueClass {
	for at, calls := range q {
		if len(calls) > 0 {
			return queueClass(at)
		}
	}
	panic("actor: nothing queues")
}
