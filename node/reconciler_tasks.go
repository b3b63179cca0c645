package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/observe/loglimit"
)

// tasks runs long steps beside the reconciler's loop: at most one per name at a time. The goroutine that stops the node
// calls wait. All methods may be called concurrently.
type tasks struct {
	ctx      context.Context // of all tasks
	now      func() time.Time
	logger   *slog.Logger
	changed  notifier // wakes the reconciler
	throttle loglimit.Limit

	group   sync.WaitGroup
	mu      sync.Mutex
	running map[string]bool // guarded by mu
	closed  bool            // guarded by mu
}

func newTasks(ctx context.Context, now func() time.Time, logger *slog.Logger, changed notifier) *tasks {
	return &tasks{ctx: ctx, now: now, logger: logger, changed: changed, throttle: newComplaints(),
		running: make(map[string]bool)}
}

// start runs f unless a task of that name is under way, and reports whether it runs f.
func (t *tasks) start(name string, f func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.running[name] {
		return false
	}
	t.running[name] = true
	t.group.Go(func() {
		defer func() {
			t.mu.Lock()
			delete(t.running, name)
			t.mu.Unlock()
		}()
		f(t.ctx)
	})
	return true
}

// note makes the reconciler look at the outcome of a task. A failed task is tried again with the next tick, not at
// once: it may fail as quickly again.
func (t *tasks) note(what string, err error) {
	switch {
	case err == nil:
		t.changed.notify()
	case t.ctx.Err() == nil && mayComplain(&t.throttle, what, t.now()):
		t.logger.Info(what+" did not work; trying again", "error", err)
	}
}

// wait keeps new tasks from starting and waits for those under way.
func (t *tasks) wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.group.Wait()
}
