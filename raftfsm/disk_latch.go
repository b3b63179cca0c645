package raftfsm

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
)

// diskLatch is the latch of a data directory that can no longer be trusted. The first failure sets it. It is never
// cleared, because the disk may have lost data that a retry would find in the cache and report as written.
type diskLatch struct {
	once     sync.Once
	first    atomic.Pointer[error] // what set it; nil: it is not set
	logger   *slog.Logger
	distrust func(error) // marks the directory for the next start, if possible; may be nil
	fatal    func(error) // StoresConfig.Fatal
}

// cause returns the error that set the latch, or nil while the stores are sound.
func (p *diskLatch) cause() error {
	if err := p.first.Load(); err != nil {
		return *err
	}
	return nil
}

// fail sets the latch. The first caller marks the directory and reports the error. Other callers wait until it has.
func (p *diskLatch) fail(err error) {
	p.once.Do(func() {
		err = fmt.Errorf("raftfsm: stopped, %w: %w", ErrUntrusted, err)
		p.first.Store(&err)
		p.logger.Error("stores can no longer be trusted, stopping", "error", err)
		if p.distrust != nil {
			p.distrust(err)
		}
		p.fatal(err)
	})
}

// halt sets the latch and ends the calling goroutine, running its deferred calls. hashicorp/raft retries a failed write
// and panics on a failed read or term write. Neither may happen, so its goroutine ends at once. Its deferred calls
// answer the proposals under way with ErrLeadershipLost, an unknown outcome.
func (p *diskLatch) halt(err error) {
	p.fail(err)
	runtime.Goexit()
}

// do makes one call into a store on behalf of hashicorp/raft. It makes no call once the latch is set, and a failed call
// sets the latch. A call that succeeds while the latch is set counts as failed (faultyFS).
func (p *diskLatch) do(call func() error) {
	p.check()
	//mutant:bolt-fault-ends-the-process
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a memory-mapped file (bbolt's) that became shorter
	defer func() {
		if r := recover(); r != nil {
			p.halt(fmt.Errorf("panic in a store: %v: %w", r, ErrCorrupt)) // bbolt's way of reporting it
		}
	}()
	if err := call(); err != nil {
		p.halt(err)
	}
	p.check() //mutant:scratch-writes-believed
}

// check ends the calling goroutine if the latch is set.
func (p *diskLatch) check() {
	if err := p.cause(); err != nil {
		p.halt(err)
	}
}

// contain is isolate for calls of this package's users: f does not run once the latch is set, and the error is then the
// one that set the latch. Unlike do, it lets f fail without setting the latch, except by an EIO.
func (p *diskLatch) contain(f func() error) error {
	if err := p.cause(); err != nil {
		return err
	}
	err := corruption(isolate(f))
	if errors.Is(err, syscall.EIO) { // from either store: a disk that failed once is not used again
		p.fail(err)
	}
	if cause := p.cause(); cause != nil {
		return cause
	}
	return err
}

// isolate runs f on a goroutine of its own and waits for it, so that halt, and panics of the libraries, become an error
// here and do not end the caller.
func isolate(f func() error) error {
	err := errors.New("raftfsm: halted")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("raftfsm: panic in a store: %v: %w", r, ErrCorrupt)
			}
		}()
		debug.SetPanicOnFault(true)
		err = f()
	}()
	<-done
	return err
}
