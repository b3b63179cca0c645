package redis

import "runtime"

// eventLoops are the event loops of a server, each for its share of the connections, by their ids.
type eventLoops []*eventLoop

func newEventLoops() (l eventLoops) {
	for range max(1, runtime.GOMAXPROCS(0)/2) { // the other half answers
		l = append(l, new(eventLoop))
	}
	return l
}

// rest waits while an event loop answers a connection whose client sends whole commands, one round after another. What
// the loop gives back unanswered is answered here. It returns false if the connection ends.
func (l eventLoops) rest(c *conn) (more bool) {
	if !mayRest(c) {
		return true
	}
	l[c.id%uint64(len(l))].rest(c)
	return c.from == c.to || c.answer()
}

// mayRest reports whether an event loop may read a connection. A client that has not authenticated is read under a
// deadline, and a command may wait until the cluster's table is known: a loop knows no deadlines and must not wait.
func mayRest(c *conn) bool {
	if c.who.caller == nil { //mutant:stranger-rests
		return false
	}
	return c.raw != nil && c.server.queues.placed.Load() //mutant:loop-waits-for-the-table
}

// close gives all connections back.
func (l eventLoops) close() {
	for _, loop := range l {
		loop.close()
	}
}
