package redis

import (
	"os"
	"sync"
	"syscall"
)

// eventLoop answers many plaintext sockets in one goroutine, by epoll. For each command that a client sends after a
// reply, a goroutine of its own reads twice, once in vain and once when the runtime's poller has woken it. The loop
// reads once and wakes no goroutine.
//
// A connection rests in the loop while its goroutine waits in rest. The loop owns it then, and only the loop gives it
// back: a goroutine that ends a connection shuts its socket down (connlimit.HangUp), which the loop reads.
type eventLoop struct {
	mu    sync.Mutex       // guards the fields below
	epoll *os.File         // nil: no connection has rested yet
	fd    int              // of epoll; usable until ended
	conns map[uint64]*conn // those that rest, by id
	ended bool             // connections read for themselves
}

// rest lets the loop answer a connection, and returns when its goroutine must go on: at once if the loop has ended. The
// loop runs in the server's wait group, which counts the caller.
func (l *eventLoop) rest(c *conn) {
	l.mu.Lock()
	if l.epoll == nil && !l.ended {
		l.open(&c.server.wait)
	}
	if l.ended || l.control(c, syscall.EPOLL_CTL_ADD) != nil {
		l.mu.Unlock()
		return
	}
	l.conns[c.id] = c
	l.mu.Unlock()
	<-c.rested
}

// open makes the epoll instance and runs the loop. The caller holds mu.
func (l *eventLoop) open(wait *sync.WaitGroup) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil || syscall.SetNonblock(fd, true) != nil {
		l.ended = true
		return
	}
	l.fd, l.epoll, l.conns = fd, os.NewFile(uintptr(fd), "epoll"), make(map[uint64]*conn)
	wait.Go(l.run)
}

// control adds or removes a connection's socket. The caller holds mu.
func (l *eventLoop) control(c *conn, operation int) (err error) {
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c.id), Pad: int32(c.id >> 32)}
	closed := c.raw.Control(func(fd uintptr) { err = syscall.EpollCtl(l.fd, operation, int(fd), &event) })
	if closed != nil {
		return closed
	}
	return err
}

// run answers the connections that rest until the loop is closed. It waits in the runtime's poller, which watches the
// epoll instance, and so holds no thread.
func (l *eventLoop) run() {
	defer l.end()
	instance, err := l.epoll.SyscallConn()
	if err != nil {
		return
	}
	reader := newSocketReader()
	var events [64]syscall.EpollEvent
	ready := make([]*conn, 0, len(events))
	for {
		n := 0
		closed := instance.Read(func(fd uintptr) bool {
			for err = syscall.EINTR; err == syscall.EINTR; {
				n, err = syscall.EpollWait(int(fd), events[:], 0)
			}
			return n != 0
		})
		if closed != nil || err != nil {
			return
		}
		ready = l.find(events[:n], ready[:0])
		for _, c := range ready {
			if !proceed(c, reader) {
				l.giveBack(c)
			}
		}
		clear(ready)
	}
}

// find appends the connections of events.
func (l *eventLoop) find(events []syscall.EpollEvent, to []*conn) []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		if c := l.conns[uint64(uint32(events[i].Fd))|uint64(uint32(events[i].Pad))<<32]; c != nil {
			to = append(to, c)
		}
	}
	return to
}

// proceed reads what has come and begins its round, for an event loop: it never waits. It returns false if the
// connection's goroutine must go on.
func proceed(c *conn, reader *socketReader) bool {
	if len(c.free) == 0 { //mutant:loop-waits-for-a-round
		return false
	}
	if !c.widen() {
		return false
	}
	n, err := reader.read(c.raw, c.in[c.to:])
	if err == syscall.EAGAIN { //mutant:loop-believes-every-event
		return true
	}
	c.to += max(0, n)
	if c.late = n > 0 && c.server.refusing.Load(); n <= 0 || c.late {
		return false
	}
	begun, more := c.round.beginNext()
	return begun && more && c.from == c.to && mayRest(c)
}

// socketReader reads sockets and waits for nothing: an event may tell of bytes that are not there, as of urgent data
// when the kernel is short of memory, and the other connections of the loop must not wait for one client. One goroutine
// uses it.
type socketReader struct {
	into    []byte                // argument of attempt
	n       int                   // result of attempt
	err     error                 // likewise
	attempt func(fd uintptr) bool // the method once, bound here so that no read allocates it
}

func newSocketReader() *socketReader {
	r := new(socketReader)
	r.attempt = r.once
	return r
}

// read returns how many bytes were there; an error of 0 bytes is syscall.EAGAIN if more may come.
func (r *socketReader) read(from syscall.RawConn, into []byte) (n int, err error) {
	r.into = into
	if err := from.Read(r.attempt); err != nil {
		return 0, err
	}
	return r.n, r.err
}

// once reads once. Like conn.writeOnce, it always returns true.
func (r *socketReader) once(fd uintptr) bool {
	for r.err = syscall.EINTR; r.err == syscall.EINTR; {
		r.n, r.err = syscall.Read(int(fd), r.into)
	}
	return true
}

// giveBack lets the goroutine of a connection go on.
func (l *eventLoop) giveBack(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c.id)
	if !l.ended {
		l.control(c, syscall.EPOLL_CTL_DEL)
	}
	c.rested <- struct{}{}
}

// close ends the loop, which gives all connections back.
func (l *eventLoop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended = true; l.epoll != nil {
		l.epoll.Close()
	}
}

// end gives all connections back. From now on they read for themselves.
func (l *eventLoop) end() {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.rested <- struct{}{}
	}
	clear(l.conns)
}
