package node

import (
	"context"
	"sync"
)

// tasks runs long steps beside the reconciler's loop: at most one per name at a time.
type tasks struct {
	ctx     context.Context
	group   sync.WaitGroup
	mu      sync.Mutex
	running map[string]bool
	closed  bool
}

func newTasks(ctx context.Context) *tasks { return &tasks{ctx: ctx, running: make(map[string]bool)} }

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

// wait keeps new tasks from starting and waits for those under way.
func (t *tasks) wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.group.Wait()
}
