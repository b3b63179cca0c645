package raftfsm

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

// poison is the latch of a data directory that can no longer be trusted. The first failure sets it; it is never
// cleared, because the disk may have lost what a retry would then find in the cache and call written.
type poison struct {
	once     sync.Once
	first    atomic.Pointer[error]
	logger   *slog.Logger
	distrust func() // marks the directory, if it can, for the next start
	fatal    func(error)
}

// cause is what set the latch; nil while the stores are sound.
func (p *poison) cause() error {
	if err := p.first.Load(); err != nil {
		return *err
	}
	return nil
}

// fail sets the latch. The first caller marks the directory, if it is the disk that failed, and reports; the others wait
// until it has.
func (p *poison) fail(err error) {
	p.once.Do(func() {
		err = fmt.Errorf("raftfsm: stopped, the stores can no longer be trusted: %w", err)
		p.first.Store(&err)
		p.logger.Error("stores can no longer be trusted, stopping", "error", err)
		if p.distrust != nil && suspicious(err) {
			p.distrust()
		}
		p.fatal(err)
	})
}

// halt sets the latch and ends the calling goroutine, running its deferred calls. hashicorp/raft answers a failed
// write by trying again and a failed read or term write by a panic: neither may happen, so its goroutine ends where
// it stands. Its deferred calls answer the proposals under way with ErrLeadershipLost, an unknown outcome.
func (p *poison) halt(err error) {
	p.fail(err)
	runtime.Goexit()
}

// do makes one call into a store on behalf of hashicorp/raft: nothing after the latch is set, and a failure sets it.
func (p *poison) do(call func() error) {
	p.check()
	defer func() {
		if r := recover(); r != nil {
			p.halt(fmt.Errorf("panic in a store: %v: %w", r, ErrCorrupt)) // bbolt's way to say so
		}
	}()
	if err := call(); err != nil {
		p.halt(err)
	}
}

// check ends the calling goroutine if the latch is set.
func (p *poison) check() {
	if err := p.cause(); err != nil {
		p.halt(err)
	}
}

// contain is isolate for what opens and creates: nothing after the latch is set, and what set it is the error.
func (p *poison) contain(f func() error) error {
	if err := p.cause(); err != nil {
		return err
	}
	err := corruption(isolate(f))
	if errors.Is(err, syscall.EIO) { // from whichever store: a disk that failed once is not asked again
		p.fail(err)
	}
	if cause := p.cause(); cause != nil {
		return cause
	}
	return err
}

// isolate runs f on a goroutine of its own and waits for it, so that halt, and the panics of the libraries, become an
// error here instead of ending the caller.
func isolate(f func() error) error {
	err := errors.New("raftfsm: halted")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("raftfsm: %v", r)
			}
		}()
		err = f()
	}()
	<-done
	return err
}
