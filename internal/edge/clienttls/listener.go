package clienttls

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Listen returns a listener that answers plaintext clients with the reason for the refusal. A TLS server on top of them
// would only close the connection, which every client takes for a broken network.
func Listen(inner net.Listener, refuse Refuse) net.Listener {
	return &listener{inner, refuse}
}

// Refuse returns the answer to the bytes, at least one, that a plaintext client has sent, and whether to read and
// answer again if the client goes on.
type Refuse func(sent []byte) (answer []byte, goOn bool)

type listener struct {
	net.Listener
	refuse Refuse
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, refuse: l.refuse}
	c.judged.Store(true)
	return c, nil
}

// conn is a connection below TLS. TLS reads by one goroutine at a time.
type conn struct {
	net.Conn
	refuse Refuse
	heard  bool        // the first bytes have been read; owned by the reader
	judged atomic.Bool // false while a certificate may still be shown and refused, and after its refusal
}

// handshakeRecord is the first byte of every TLS connection, and of no other protocol on these ports.
const handshakeRecord = 0x16

// NetConn returns the connection below, as tls.Conn does.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.heard || n == 0 {
		return n, err
	}
	c.heard = true
	if b[0] == handshakeRecord { //mutant:plaintext-ends-wordless
		return n, err
	}
	c.turnAway(b, n)
	return 0, io.EOF
}

// hangUpWithin is how long a refused client may take to hang up. A connection that is closed while its client still
// sends is reset, and the client may lose the answer.
const hangUpWithin = time.Second

// turnAway answers the bytes that were read, and those that follow for a moment.
func (c *conn) turnAway(buffer []byte, n int) {
	c.SetDeadline(time.Now().Add(hangUpWithin))
	for {
		answer, goOn := c.refuse(buffer[:n])
		if _, err := c.Conn.Write(answer); err != nil {
			return
		}
		if !goOn {
			c.awaitHangUp()
			return
		}
		var err error
		if n, err = c.Conn.Read(buffer); err != nil {
			return
		}
	}
}

// judging returns a configuration for this connection alone, with the given one's demand for a certificate. The
// connection learns the verdict before TLS writes the alert of a refusal.
func (c *conn) judging(config *tls.Config) *tls.Config {
	c.judged.Store(false)
	config = config.Clone()
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := verify(state)
		c.judged.Store(err == nil)
		return err
	}
	return config
}

// Write implements net.Conn. After the refusal of a certificate it waits for the client to hang up: in TLS 1.3 a client
// sends its first request right after its certificate, and would see a broken connection instead of the refusal.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil && !c.judged.Load() && isAlert(b) {
		c.SetReadDeadline(time.Now().Add(hangUpWithin))
		c.awaitHangUp()
	}
	return n, err
}

// isAlert reports whether a write during a handshake is an alert: the only record that short, encrypted or not.
func isAlert(record []byte) bool {
	const alert, encrypted, encryptedAlertMost = 21, 23, 5 + 2 + 1 + 16
	return len(record) > 0 && (record[0] == alert || record[0] == encrypted && len(record) <= encryptedAlertMost)
}

// awaitHangUp ends the sending side and reads until the client has hung up, or the deadline, which the caller has set.
func (c *conn) awaitHangUp() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		io.Copy(io.Discard, c.Conn)
	}
}
