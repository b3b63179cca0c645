package actor

import (
	"context"
	"fmt"
	"time"
)

// Handover gives the shard away in order (X10). The actor stops proposing and refuses queued and new requests, so that
// routers send them elsewhere. When everything under way has its outcome, the epoch ends and transfer is called, on
// this goroutine. Afterwards the actor opens a new epoch if this node still leads, whatever the result of the transfer;
// otherwise it stays closed like any follower.
//
// The error is transfer's, or the reason why transfer was not called: ctx ended before everything had its outcome, or
// the actor was closed. Concurrent handovers run one after another. It must not be called by an Observer, and transfer
// must return.
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
	case a.asks <- func() { a.pause(quiet) }:
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
		return fmt.Errorf("a proposal is still under way: %w", ctx.Err())
	case <-a.gone:
		return errDraining
	}
}

// endPause lets the loop continue, if it has not ended.
func (a *Actor) endPause() {
	select {
	case a.asks <- func() { a.resume(a.config.Now()) }:
	case <-a.gone:
	}
}

// The loop's part.

// pause begins a handover. quiet is closed when nothing is under way.
func (a *Actor) pause(quiet chan struct{}) {
	a.quiet = quiet
	a.seq.pause()
}

// noteQuiet ends the epoch of a handover once nothing is under way in it.
func (a *Actor) noteQuiet() {
	if a.quiet == nil || !a.seq.quiet() {
		return
	}
	a.noteEpoch(a.config.Now())
	close(a.quiet)
	a.quiet = nil
}

// resume ends a handover. The next epoch is a new one, even if nothing was transferred: that is correct after any
// result of transfer.
func (a *Actor) resume(wall time.Time) {
	a.quiet = nil
	a.seq.resume()
	a.noteEpoch(wall)
	a.closedAt = wall
	a.tryOpen()
}
