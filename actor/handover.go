package actor

import (
	"context"
	"fmt"
	"time"
)

// Handover gives the shard away in order (SEMANTICS X10): the actor proposes nothing more and refuses what queues and
// what comes, so that routers send it elsewhere; when everything under way has its outcome, the epoch ends and transfer
// is called, by this goroutine. Afterwards the actor opens an epoch anew if this node still leads, whatever became of
// the transfer, and stays closed as any follower if not.
//
// The error is transfer's, or says why transfer was not called: ctx ended before everything had its outcome, or the
// actor was closed. Handovers wait for each other. It must not be called by an Observer, and transfer must end.
func (a *Actor) Handover(ctx context.Context, transfer func() error) error {
	select {
	case a.handing <- struct{}{}:
		defer func() { <-a.handing }()
	case <-ctx.Done():
		return fmt.Errorf("another handover is under way: %w", ctx.Err())
	case <-a.gone:
		return errDraining
	}
	quiet := make(chan struct{})
	select {
	case a.pauses <- quiet:
		defer a.endPause()
	case <-ctx.Done():
		return ctx.Err()
	case <-a.gone:
		return errDraining
	}
	select {
	case <-quiet:
		return transfer()
	case <-ctx.Done():
		return fmt.Errorf("proposals are still under way: %w", ctx.Err())
	case <-a.gone:
		return errDraining
	}
}

// endPause lets the loop go on, if it is there to do so.
func (a *Actor) endPause() {
	select {
	case a.resumes <- struct{}{}:
	case <-a.gone:
	}
}

// The loop's part.

// pause begins a handover. quiet is closed when nothing is under way any more.
func (a *Actor) pause(quiet chan struct{}) {
	a.quiet = quiet
	a.seq.pause()
}

// noteQuiet ends the epoch of a handover when nothing is under way in it any more.
func (a *Actor) noteQuiet() {
	if a.quiet == nil || !a.seq.quiet() {
		return
	}
	a.noteEpoch(a.config.Now())
	close(a.quiet)
	a.quiet = nil
}

// resume ends a handover. The next epoch is a new one, even if nothing was transferred: that is what is known to be
// right after whatever transfer came to.
func (a *Actor) resume(wall time.Time) {
	a.quiet = nil
	a.seq.resume()
	a.noteEpoch(wall)
	a.closedAt = wall
	a.tryOpen()
}
