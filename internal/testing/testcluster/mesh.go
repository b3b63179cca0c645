package testcluster

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// mesh stands in front of every node and relays what the others send to it.
type mesh struct {
	cluster *Cluster
	wg      sync.WaitGroup

	mu        sync.Mutex
	closed    bool                   // from then on keep closes what it is given
	open      map[io.Closer]struct{} // listeners and connections
	datagrams map[int]*net.UDPConn   // by node: the address that receives its gossip
}

func newMesh(c *Cluster) *mesh {
	return &mesh{cluster: c, open: map[io.Closer]struct{}{}, datagrams: map[int]*net.UDPConn{}}
}

// front opens the addresses that a node announces.
func (m *mesh) front(i int, n *node) error {
	for _, port := range []int{peerPort, gossipPort} {
		listener, err := net.Listen("tcp", hostPort(n.announced, port))
		if err != nil {
			return err
		}
		m.keep(listener)
		m.wg.Go(func() { m.accept(listener, i, hostPort(n.ip, port)) })
	}
	datagrams, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(n.announced), Port: gossipPort})
	if err != nil {
		return err
	}
	m.keep(datagrams)
	m.mu.Lock()
	m.datagrams[i] = datagrams
	m.mu.Unlock()
	m.wg.Go(func() { m.forward(datagrams, i, n) })
	return nil
}

// keep registers a closer for close. It returns false if the mesh is closed; then c is closed too.
func (m *mesh) keep(c io.Closer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		c.Close()
		return false
	}
	m.open[c] = struct{}{}
	return true
}

func (m *mesh) drop(c io.Closer) {
	m.mu.Lock()
	delete(m.open, c)
	m.mu.Unlock()
	c.Close()
}

func (m *mesh) close() {
	m.mu.Lock()
	m.closed = true
	for c := range m.open {
		c.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
}

func (m *mesh) accept(listener net.Listener, to int, target string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed
		}
		if m.keep(conn) {
			m.wg.Go(func() { m.connect(conn.(*net.TCPConn), to, target) })
		}
	}
}

// connect relays a connection. If the node does not listen, the connection is reset: that is how the node would have
// refused it.
func (m *mesh) connect(conn *net.TCPConn, to int, target string) {
	defer m.drop(conn)
	from := m.dialer(conn)
	m.cluster.links.await(from, to)
	dialed, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil || !m.keep(dialed) {
		_ = conn.SetLinger(0) // makes the close a reset
		return
	}
	defer m.drop(dialed)
	var both sync.WaitGroup
	both.Go(func() { m.pass(dialed.(*net.TCPConn), conn, from, to) })
	both.Go(func() { m.pass(conn, dialed.(*net.TCPConn), to, from) })
	both.Wait()
}

// pass relays one direction to its end, while its link is whole.
func (m *mesh) pass(dst, src *net.TCPConn, from, to int) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		m.cluster.links.await(from, to)
		if n > 0 {
			if _, err := dst.Write(buffer[:n]); err != nil {
				src.Close()
				return
			}
		}
		if err == io.EOF {
			_ = dst.CloseWrite() // the other direction may continue
			return
		}
		if err != nil {
			_ = dst.SetLinger(0)
			dst.Close()
			return
		}
	}
}

// forward relays datagrams. Each leaves from the address that its sender announces, so an answer to that address passes
// through the mesh too.
func (m *mesh) forward(in *net.UDPConn, to int, n *node) {
	target := &net.UDPAddr{IP: net.ParseIP(n.ip), Port: gossipPort}
	buffer := make([]byte, 64<<10)
	for {
		size, sender, err := in.ReadFromUDP(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		from := m.cluster.byIP(sender.IP.String())
		passes, late, _ := m.cluster.links.open(from, to)
		if !passes {
			continue
		}
		out := m.exit(from, in)
		if late == 0 {
			_, _ = out.WriteToUDP(buffer[:size], target) // datagrams may get lost
			continue
		}
		datagram := append([]byte(nil), buffer[:size]...)
		time.AfterFunc(late, func() { _, _ = out.WriteToUDP(datagram, target) })
	}
}

// exit returns the socket from which a datagram leaves: that of the address its sender announces, if it is a node.
func (m *mesh) exit(from int, otherwise *net.UDPConn) *net.UDPConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if own, ok := m.datagrams[from]; ok {
		return own
	}
	return otherwise
}
