package crew

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// No function waits for another: a thousand run at once, and each may start one more.
func TestFunctionsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		var begun atomic.Int64
		release := make(chan struct{})
		for range 1000 {
			c.Go(func() {
				c.Go(func() { begun.Add(1); <-release })
				begun.Add(1)
				<-release
			})
		}
		synctest.Wait()
		if got := begun.Load(); got != 2000 {
			t.Errorf("%d of 2,000 functions have begun", got)
		}
		close(release)
		c.Close()
	})
}

// A goroutine takes the next function. After a crowd some of its goroutines stay, and Close ends them: the bubble would not end
// otherwise.
func TestGoroutinesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		crowd := func(functions int) {
			release := make(chan struct{})
			for range functions {
				c.Go(func() { <-release })
			}
			close(release)
			c.Wait()
			synctest.Wait()
		}
		for range 3 {
			crowd(1)
			if got := c.idle.Load(); got != 1 {
				t.Errorf("%d goroutines wait after functions one at a time", got)
			}
		}
		for range 3 {
			crowd(10 * idleMost)
			if got := c.idle.Load(); got != idleMost {
				t.Errorf("%d goroutines wait after a crowd, the bound is %d", got, idleMost)
			}
		}
		c.Close()
		c.Close()
	})
}

// Close waits for the functions that functions start.
func TestCloseWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		var ended atomic.Int64
		release := make(chan struct{})
		var chain func(left int) func()
		chain = func(left int) func() {
			return func() {
				<-release
				if left > 0 {
					c.Go(chain(left - 1))
				}
				ended.Add(1)
			}
		}
		for range 10 {
			c.Go(chain(9))
		}
		synctest.Wait()
		go close(release)
		c.Close()
		if got := ended.Load(); got != 100 {
			t.Errorf("Close returned after %d of 100 functions", got)
		}
	})
}

// deep needs about as much stack as a request that goes to another node.
//
//go:noinline
func deep(frames int) byte {
	var frame [200]byte
	if frames > 0 {
		frame[frames] = deep(frames - 1)
	}
	return frame[frames]
}

func BenchmarkStack(b *testing.B) {
	b.Run("crew", func(b *testing.B) {
		c := New()
		defer c.Close()
		f := func() { deep(20) }
		for b.Loop() {
			c.Go(f)
			c.Wait()
		}
	})
	b.Run("go", func(b *testing.B) {
		var group sync.WaitGroup
		f := func() { deep(20) }
		for b.Loop() {
			group.Go(f)
			group.Wait()
		}
	})
}
