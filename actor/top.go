package actor

import (
	"context"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/shard"
)

// inlinePolicy is the name under which keys with limits from the request are counted: the request may use any name for
// them.
const inlinePolicy = "inline"

// Top returns the busiest keys of the shard since this node owns it. ok is false if it does not own the shard, has no
// board, or ctx ended. It may be called by any number of goroutines.
func (a *Actor) Top(ctx context.Context, q *top.Query) (parts []top.Part, ok bool) {
	ok = a.askBoard(ctx, func(now int64) { parts = a.board.Read(q, now) })
	return parts, ok
}

// Spikes lists the keys of the shard that were denied far more often in the last minute than before, as far as this
// node knows since it owns the shard; none if it does not. It is meant to be called once a minute; shard.SpikeRequest
// drops repeated ones. It may be called by any number of goroutines.
func (a *Actor) Spikes(ctx context.Context) (spikes []top.Spike) {
	a.askBoard(ctx, func(now int64) { spikes = a.board.Spikes(now) })
	return spikes
}

// askBoard makes the loop read the board at an instant. It returns false if the shard is not owned here, or ctx ended.
func (a *Actor) askBoard(ctx context.Context, read func(now int64)) (done bool) {
	if a.board == nil || !a.Open() {
		return false
	}
	answered := make(chan struct{})
	ask := func() {
		if done = a.seq.state == open; done {
			read(a.config.Now().UnixMicro())
		}
		close(answered)
	}
	select {
	case a.asks <- ask:
		<-answered
	case <-a.gone:
	case <-ctx.Done():
	}
	return done
}

// openTop begins a new board for a new epoch, unless no other node has owned the shard since this node's last one.
func (a *Actor) openTop() {
	if a.board != nil && !a.continues {
		a.board.Close(a.config.Now().UnixMicro())
	}
}

// countTop counts the keys of the newest batch. The batch is with the proposer already, so its callers do not wait for
// this.
func (a *Actor) countTop(wall time.Time) {
	if a.board == nil {
		return
	}
	f := a.seq.inFlight
	if len(f.results) == 0 {
		return
	}
	a.board.Advance(wall.UnixMicro())
	results := f.results
	for _, p := range f.parts {
		for i := range p.to - p.from {
			if r := &results[i]; r.Err == nil {
				CountKeys(a.board, &p.call.requests[p.from+i], &r.Decision)
			}
		}
		results = results[p.to-p.from:]
	}
}

// CountKeys counts the entries of one decision in a board that the caller owns. A denied entry is one that a limit or a
// block denied, not one that was denied because of another.
func CountKeys(b *top.Board, r *shard.Request, d *shard.Decision) {
	op, counts := decidedOp(r)
	if !counts || d.Replayed || r.Namespace == shard.CanaryNamespace { //mutant:canary-among-the-keys
		return
	}
	statuses := d.Limits
	for i := range r.Entries {
		e, n := &r.Entries[i], r.StatusesOf(i, statuses)
		denied, granted := false, uint64(0)
		for j := range statuses[:n] {
			s := &statuses[j]
			denied = denied || s.Blocked || !s.Allowed && !s.Shadow && !s.Unlimited
			granted = s.Granted
		}
		statuses = statuses[n:]
		var units uint64
		switch {
		case !d.Allowed:
		case op == shard.Partial:
			units = granted
		case op == shard.Tally:
			if r.Tally != nil && r.Tally.Verb == shard.TallyAdd {
				units = uint64(max(0, r.Tally.Amount))
			}
		default:
			units = e.Cost
		}
		name := e.Policy
		if e.Limits != nil {
			name = inlinePolicy
		}
		b.Add(r.Namespace, name, e.Key, denied && !d.Allowed, units)
	}
}

// decidedOp returns the operation that a request is, or is a part of, and whether it decides about keys.
func decidedOp(r *shard.Request) (op shard.Op, decides bool) {
	op = r.Op
	if (op == shard.Charge || op == shard.Conclude) && r.Operation != nil {
		op = r.Operation.Op
	}
	switch op {
	case shard.Check, shard.Count, shard.Partial, shard.Reserve, shard.Tally:
		return op, true
	}
	return op, false
}
