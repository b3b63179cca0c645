package connlimit

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is an admitted connection.
type conn struct {
	net.Conn
	limit *Limit
	since time.Duration // when it was admitted (Limit.now)
	spoke atomic.Int64  // time of the last read that was recorded (likewise): reads are, while the limit is crowded
	once  sync.Once     // of leave, in Close

	unproven atomic.Bool   // the client must still authenticate; set before Accept returns, or never
	place    *list.Element // in limit.unproven, or nil; guarded by limit.mu
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.heard()
	return n, err
}

// heard records a read, also a failed one.
func (c *conn) heard() {
	if c.limit.crowded.Load() {
		c.spoke.Store(int64(c.limit.now()))
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() { c.limit.leave(c) })
	return c.Conn.Close()
}

// tcpConn is a conn over TCP with all methods of a TCP connection: HangUp ends its sides one by one, and the Redis port
// reads its socket itself.
type tcpConn struct {
	*net.TCPConn
	conn *conn // over the same TCPConn
}

// Read implements net.Conn.
func (c *tcpConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.conn.heard()
	return n, err
}

// SyscallConn implements syscall.Conn. Reads of the socket are recorded, too.
func (c *tcpConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.TCPConn.SyscallConn()
	return rawConn{raw, c.conn}, err
}

// rawConn is the socket of a tcpConn.
type rawConn struct {
	syscall.RawConn
	conn *conn
}

// Read implements syscall.RawConn.
func (r rawConn) Read(f func(fd uintptr) (done bool)) error {
	err := r.RawConn.Read(f)
	r.conn.heard()
	return err
}

// Close implements net.Conn.
func (c *tcpConn) Close() error { return c.conn.Close() }

// HangUp ends a connection. Its reader hears of it and must close it; a socket stays open until then, even if its
// client has hung up already, so that no other connection gets its descriptor while the reader waits for it.
func HangUp(c net.Conn) {
	half, ok := c.(interface {
		CloseRead() error
		CloseWrite() error
	})
	if !ok {
		c.Close()
		return
	}
	half.CloseRead() // if it fails, the connection has ended, which the reader hears, too
	half.CloseWrite()
}

// Prover returns the function that marks the connection's client as authenticated. The connection may be one of a
// Limit, or wrap one that it returns by NetConn, as TLS connections do; for others the function does nothing. It may be
// called often and concurrently.
func Prover(from net.Conn) (proven func()) {
	for {
		switch c := from.(type) {
		case *conn:
			return c.prove
		case *tcpConn:
			return c.conn.prove
		case interface{ NetConn() net.Conn }:
			from = c.NetConn()
		default:
			return func() {}
		}
	}
}

// prove removes the connection from the unauthenticated ones.
func (c *conn) prove() {
	if c.unproven.Load() && c.unproven.Swap(false) { //mutant:proven-client-pushed-out
		c.limit.mu.Lock()
		c.limit.dropUnproven(c)
		c.limit.mu.Unlock()
	}
}
