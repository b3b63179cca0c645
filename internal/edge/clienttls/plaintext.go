package clienttls

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Listen returns a listener whose connections tell a client that speaks plaintext why it is not served. A TLS server on top
// of them would only end the connection, which every client takes for a broken network.
func Listen(inner net.Listener, refuse Refuse) net.Listener {
	return &listener{inner, refuse}
}

// Refuse returns the answer to what a client in plaintext has sent, of which at least a byte is there, and whether it is to be
// heard and answered again if it goes on.
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
	heard  bool        // the first bytes have been read
	judged atomic.Bool // no certificate of the client is going to be refused
}

// handshakeRecord is the first byte of every TLS connection, and of no other protocol that is spoken here.
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

// hangUpWithin is how long a client that was told may take to hang up. A connection that is closed while its client still
// sends is reset, and the client may lose what it was told.
const hangUpWithin = time.Second

// turnAway answers what was read, and what follows for a moment.
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

// judging returns a configuration for this connection alone, which asks for a certificate as the given one does.
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

// Write implements net.Conn. After the refusal of a certificate it waits for the client to hang up: in TLS 1.3 a client sends
// its first request behind its certificate, and would hear of a broken connection instead of the refusal.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil && !c.judged.Load() && isAlert(b) {
		c.SetReadDeadline(time.Now().Add(hangUpWithin))
		c.awaitHangUp()
	}
	return n, err
}

// isAlert reports whether a write during a handshake is an alert: the only record there is that short, encrypted or not.
func isAlert(record []byte) bool {
	const alert, encrypted, encryptedAlertMost = 21, 23, 5 + 2 + 1 + 16
	return len(record) > 0 && (record[0] == alert || record[0] == encrypted && len(record) <= encryptedAlertMost)
}

// awaitHangUp reads until the client has hung up, or the deadline.
func (c *conn) awaitHangUp() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		io.Copy(io.Discard, c.Conn)
	}
}
