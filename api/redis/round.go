package redis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/shard"
)

// roundMost is the largest number of commands of one connection that are decided together.
const roundMost = 1024

// saidMost bounds the replies of a round in bytes. The reply to COMMAND is two hundred times as long as the command,
// and replies stay in memory until their client reads them.
const saidMost = 16 << 10

// round is the commands of a connection that are decided at once. Its connection owns it, except that each call under
// way writes the answers of its own commands.
type round struct {
	conn        *conn
	began       time.Time
	commands    []command    // in the order of the replies; none is added once the round begins: batches point into it
	parts       []part       // one for each shard that is asked
	acrossCount int          // commands with entries that may live on several shards; they are in no part
	said        int          // bytes of replies that need no shard
	checks      bool         // some commands are checks of a policy
	ends        bool         // the connection is closed when the replies are written
	left        atomic.Int32 // calls that have not ended; the one that makes it 0 writes the replies

	trace  trace.Call
	span   shard.Trace              // follows its requests; nil disables tracing
	event  decisions.Event          // of the round, which is one call
	lister func() []decisions.Asked // the method questions

	// Room for repeatOne, to ask whether a denial may be repeated.
	asked [1]shard.Entry
	asks  shard.Request
}

// part has the commands of a round for one shard, linked in order.
type part struct {
	id          shard.ID
	first, last int32 // indices in round.commands; command.next leads from one to the other
	load
}

// reset empties the round. It keeps memory for the next one, unless that is far more than this one needed.
func (r *round) reset() {
	clear(r.commands)
	const usual = 64
	if cap(r.commands) > usual && len(r.commands) <= usual/4 {
		r.commands = nil
	}
	r.commands, r.parts, r.acrossCount, r.said, r.ends, r.checks = r.commands[:0], r.parts[:0], 0, 0, false, false
	r.trace, r.span = trace.Call{}, nil
	r.event = decisions.Event{Counted: r.event.Counted[:0], Commands: r.event.Commands[:0]}
}

// link gives the i-th command to a shard, after the round's earlier commands for that shard.
func (r *round) link(i int32, id shard.ID) {
	r.commands[i].next = -1
	size := load{requests: 1, bytes: requestBytes + len(r.commands[i].key) + len(r.commands[i].policy)}
	for at := range r.parts {
		if p := &r.parts[at]; p.id == id {
			r.commands[p.last].next = i
			p.last = i
			p.add(size)
			return
		}
	}
	r.parts = append(r.parts, part{id, i, i, size})
}

// repeat answers the checks if their denial may be repeated, so that a flood waits for no commit. No earlier command of
// the round could make room for such a check.
func (r *round) repeat(g *shardQueues) {
	if !r.checks {
		return
	}
	parts := r.parts
	r.parts = r.parts[:0] // each part is read before its place is overwritten
	for _, p := range parts {
		for i := p.first; i >= 0; {
			next := r.commands[i].next
			if !r.repeatOne(&r.commands[i], g) {
				r.link(i, p.id)
			}
			i = next
		}
	}
}

// repeatOne answers a check of a policy if its denial may be repeated, and reports whether it may.
func (r *round) repeatOne(c *command, g *shardQueues) bool {
	if c.op != shard.Check || c.policy == "" {
		return false
	}
	r.asked[0] = shard.Entry{Policy: c.policy, Key: c.key, Cost: c.cost}
	r.asks = shard.Request{Op: c.op, Namespace: c.namespace, Entries: r.asked[:], Hashed: c.hashed}
	return g.router.Repeat(&r.asks, &c.result.Decision)
}

// beginNext waits for the end of the round, and begins it anew with the complete commands that its connection has read.
// begun reports whether there were any, and more whether the connection goes on.
func (r *round) beginNext() (begun, more bool) {
	c := r.conn
	<-c.free
	if c.ended {
		c.free <- struct{}{}
		return false, false
	}
	c.identify() //mutant:redis-connection-asked-once
	c.translate()
	if len(r.commands) == 0 {
		c.free <- struct{}{}
		return false, true
	}
	ends := r.ends
	r.begin()
	return true, !ends
}

// begin starts a round. Its connection owns the round again once it has the token, perhaps before begin returns.
func (r *round) begin() {
	r.began = time.Now()
	r.follow()
	r.repeat(r.conn.server.queues)
	parts := r.parts // with checks of several shards alone, the round may have ended before the loop below
	calls := len(parts)
	if r.acrossCount > 0 {
		calls++
	}
	if calls == 0 {
		r.conn.finish()
		return
	}
	r.left.Store(int32(calls))
	g := r.conn.server.queues
	if r.acrossCount > 0 {
		g.calls.Go(func() { r.decideAcross(g) })
	}
	for _, p := range parts { // after the last one the round may have ended
		g.of(p.id).add(r, p)
	}
}

// decideAcross decides checks that may concern several shards, one after another, in the order in which they were sent.
func (r *round) decideAcross(g *shardQueues) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	for i := range r.commands {
		c := &r.commands[i]
		if c.together == nil {
			continue
		}
		results := g.router.Decide(ctx, []shard.Request{{Op: c.op, Namespace: c.namespace, Entries: c.together,
			Revision: c.revision, Hashed: c.hashed, Trace: r.span}})
		c.result = results[0]
	}
	r.partDone()
}

// partDone records the end of one call of the round, which may be the last: the caller must not touch the round
// afterwards.
func (r *round) partDone() {
	if r.left.Add(-1) == 0 {
		r.conn.finish()
	}
}
