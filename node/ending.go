package node

import (
	"context"
	"fmt"
	"time"
)

// ending is why a node or an edge stops by itself. All methods may be called concurrently.
type ending struct {
	fatal chan error // capacity 1: the first one
}

func newEnding() ending { return ending{make(chan error, 1)} }

// fail has the process stop: Done yields the first reason.
func (e ending) fail(err error) {
	select {
	case e.fatal <- err:
	default: // there is a first reason already
	}
}

// Done yields the reason to stop, at most once.
func (e ending) Done() <-chan error { return e.fatal }

// awaitReady waits until ready returns nil, there is a reason to stop, or ctx ends.
func (e ending) awaitReady(ctx context.Context, ready func() error) error {
	for ready() != nil {
		select {
		case err := <-e.fatal:
			return err
		// it polls: readiness depends on many places, most of them on other nodes
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", ready())
		}
	}
	return nil
}
