package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/edge/connlimit"
)

const (
	readBytes    = 4 << 10  // usual size of a read buffer
	heldMost     = 64 << 20 // sum of all read buffers beyond readBytes
	answerWithin = 30 * time.Second
)

// conn is one connection. Its goroutine owns all fields, and the event loop while it rests there; except out, which
// belongs to the goroutine that answers the current round.
type conn struct {
	server *Server
	nc     net.Conn
	raw    syscall.RawConn // nil unless it is a plaintext socket
	id     uint64          // unique among the connections of the server
	rested chan struct{}   // of capacity 1; gets a value when the event loop gives the connection back

	proto  int    // 2 or 3
	name   string // given by the client
	who    identity
	proven func() // records that the client has authenticated
	role   string // proven by a client certificate; "" if none
	shown  bool   // a token, which counts in place of the role until RESET

	multi multi // the zero value outside of a transaction
	db    int64 // the SELECTed database; only 0 has keys
	late  bool  // the last bytes came too late, because the server is stopping

	in         []byte // bytes read; in[from:to] is not yet parsed
	from, to   int
	args       [][]byte // of the command that is parsed; slices of in, overwritten by the next read
	key        connKey  // of the newest command, so that a hot key becomes a string only once
	policy     string   // likewise
	throttling throttling

	// free holds a token while no round is under way. The goroutine that takes it may fill the next round.
	free  chan struct{}
	round round
	out   []byte                // the replies of the round
	write func(fd uintptr) bool // one attempt to write out; the method writeOnce
	wrote int                   // bytes of out that write has written
	fault error                 // of writing; the connection ends then
	ended bool                  // the connection answers nothing more; written by the holder of the token
	slow  sync.WaitGroup        // goroutines that write to a client that does not read
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		server: s,
		nc:     nc,
		id:     s.ids.Add(1),
		proto:  2,
		proven: connlimit.Prover(nc),
		in:     make([]byte, readBytes),
		free:   make(chan struct{}, 1),
		rested: make(chan struct{}, 1),
	}
	c.free <- struct{}{}
	c.round.conn, c.round.lister = c, c.round.questions
	if socket, ok := nc.(syscall.Conn); ok {
		c.raw, _ = socket.SyscallConn()
	}
	c.write = c.writeOnce
	return c
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	if c.shakeHands() {
		c.awaitTokens()
		c.identify()
		for c.fill() && c.answer() && c.server.loops.rest(c) {
		}
	}
	<-c.free
	c.slow.Wait()
	if c.late {
		c.linger()
	}
	c.nc.Close()
	c.server.held.Add(-int64(len(c.in) - readBytes))
}

// handshakeWithin bounds a client's TLS handshake. Until then it holds a connection and is not authenticated.
const handshakeWithin = 5 * time.Second

// shakeHands completes the TLS handshake of a TLS connection. It returns false if the client was too slow or was
// refused.
func (c *conn) shakeHands() bool {
	secure, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeWithin) //mutant:handshake-lasts-forever
	defer cancel()
	if secure.HandshakeContext(ctx) != nil {
		return false
	}
	state := secure.ConnectionState()
	c.role = clienttls.Role(&state)
	return true
}

// fill reads the available bytes, and waits for some. It returns false if the connection ends.
func (c *conn) fill() bool {
	if !c.widen() {
		return false
	}
	n, err := c.nc.Read(c.in[c.to:])
	c.to += n
	c.late = n > 0 && c.server.refusing.Load()
	return err == nil || n > 0
}

// widen makes room after the bytes that are not yet parsed, if there is none. It returns false if they are too many:
// then it replies why, and the connection ends.
func (c *conn) widen() bool {
	if c.from == c.to {
		c.from, c.to = 0, 0
	}
	if c.to < len(c.in) {
		return true
	}
	size := len(c.in)
	if c.to-c.from <= size/2 {
		c.move(size)
		return true
	}
	size *= 2
	code, why := "", ""
	switch more := int64(size - len(c.in)); {
	case c.who.caller == nil && c.who.refusal != auth.Young && size > strangeHeld: //mutant:stranger-sends-much
		code, why = codeWrong, tooStrange
	case c.server.held.Add(more) > heldMost:
		c.server.held.Add(-more)
		code, why = codeTryAgain, "too many long commands are incomplete on this node; nothing was counted"
	default:
		c.move(size)
		return true
	}
	<-c.free
	c.say(nil, appendError(nil, code, why)).code = code
	c.round.ends = true
	c.round.begin()
	return false
}

// move copies the bytes that are not yet parsed to the start of a buffer of the given size.
func (c *conn) move(size int) {
	to := c.in
	if size != len(c.in) {
		to = make([]byte, size)
	}
	n := copy(to, c.in[c.from:c.to])
	c.in, c.from, c.to = to, 0, n
}

// answer decides all complete commands, one round after another. It returns false if the connection ends.
func (c *conn) answer() bool {
	if c.late {
		c.turnAway()
		return false
	}
	for c.from < c.to {
		begun, more := c.round.beginNext()
		if !more {
			return false
		}
		if !begun {
			break
		}
	}
	if len(c.in) > readBytes && c.to-c.from <= readBytes/2 {
		c.server.held.Add(-int64(len(c.in) - readBytes))
		c.move(readBytes)
	}
	if c.server.quiet.Load() {
		c.nc.SetReadDeadline(time.Now().Add(quietFor))
	}
	return true
}

// translate makes a round from the complete commands.
func (c *conn) translate() {
	r := &c.round
	for len(r.commands) < roundMost && r.said < saidMost && !r.ends {
		args, n, err := parse(c.in[c.from:c.to], c.args[:0])
		c.args = args
		if err != nil {
			c.fail(nil, err.Error())
			r.ends = true
			return
		}
		if n == 0 {
			return
		}
		if len(args) == 0 {
			c.from += n
			continue
		}
		v := lookup(args[0])
		alone := v != nil && v.alone
		if alone && len(r.commands) > 0 {
			return // its reply follows those of earlier commands, which keep their form
		}
		c.dispatch(v, args)
		c.from += n
		if alone {
			return
		}
	}
}

// finish writes the replies of the round and gives the token back. It does not wait for the client.
func (c *conn) finish() {
	c.out = c.encode(c.out[:0])
	if c.raw != nil {
		c.wrote = 0
		if err := c.raw.Write(c.write); err != nil && c.fault == nil {
			c.fault = err
		}
		if c.fault != nil || c.wrote == len(c.out) {
			c.finished()
			return
		}
		c.out = append(c.out[:0], c.out[c.wrote:]...)
	}
	c.slow.Go(func() { // the client reads more slowly than it sends
		c.nc.SetWriteDeadline(time.Now().Add(answerWithin))
		_, c.fault = c.nc.Write(c.out)
		c.nc.SetWriteDeadline(time.Time{})
		c.finished()
	})
}

// writeOnce writes as many bytes as the socket takes at once. It always returns true, so that the runtime does not wait
// until the socket takes more.
func (c *conn) writeOnce(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), c.out[c.wrote:])
		switch err {
		case nil:
			c.wrote += n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			c.fault = err
		}
		return true
	}
}

// finished ends the round. The caller must not touch the connection afterwards.
func (c *conn) finished() {
	if c.fault != nil || c.round.ends {
		c.ended = true
		connlimit.HangUp(c.nc)
	}
	c.round.report()
	c.round.reset()
	const usual = 64 << 10
	if cap(c.out) > usual {
		c.out = nil
	}
	c.free <- struct{}{}
}

// encode appends the replies of the round and counts them.
func (c *conn) encode(b []byte) []byte {
	commands := c.round.commands
	for i := 0; i < len(commands); {
		m := &commands[i]
		of := commands[i : i+int(m.keys)]
		code := m.code
		if m.local != nil {
			b = append(b, m.local...)
		} else if err := failureOf(of); err != nil {
			code = codeOf(err)
			b = appendFailure(b, err)
		} else {
			b = m.verb.reply(b, of, c.proto)
		}
		c.round.count(m, code)
		i += int(m.keys)
	}
	return b
}
