package gossip

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// inBubble runs a test in virtual time, with gossip over a network in memory: a machine that is busy delays no probe.
func inBubble(t *testing.T, test func(t *testing.T, n *memoryNet)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // probes that were under way when their nodes stopped end
		test(t, &memoryNet{ports: make(map[string]*memoryPort)})
	})
}

// memoryNet is a network with one machine. All methods may be called concurrently.
type memoryNet struct {
	mu    sync.Mutex
	last  int // the port that was chosen last
	ports map[string]*memoryPort
}

// config is gossipConfig on this network.
func (n *memoryNet) config(node string, seeds ...*Gossip) Config {
	c := gossipConfig(node, seeds...)
	c.network = n
	return c
}

func (n *memoryNet) listen(address string, port int, _ *log.Logger) (underlay, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		n.last++
		port = n.last
	}
	p := &memoryPort{net: n, addr: fmt.Sprint(address, ":", port), port: port,
		packets: make(chan *memberlist.Packet, 1000), streams: make(chan net.Conn), ended: make(chan struct{})}
	if n.ports[p.addr] != nil {
		return nil, syscall.EADDRINUSE
	}
	n.ports[p.addr] = p
	return p, nil
}

func (n *memoryNet) at(address string) *memoryPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ports[address]
}

func (n *memoryNet) dial(ctx context.Context, address string) (net.Conn, error) {
	p := n.at(address)
	if p == nil {
		return nil, syscall.ECONNREFUSED
	}
	here, there := net.Pipe()
	select {
	case p.streams <- there:
		return here, nil
	case <-p.ended:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// memoryPort is an open port of a memoryNet. It lacks what memberlist or a boundTransport never ask it for.
type memoryPort struct {
	memberlist.NodeAwareTransport
	net     *memoryNet
	addr    string
	port    int
	packets chan *memberlist.Packet // what does not fit is lost
	streams chan net.Conn
	ended   chan struct{}
}

func (p *memoryPort) GetAutoBindPort() int { return p.port }

func (p *memoryPort) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return net.ParseIP(ip), port, nil
}

func (p *memoryPort) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	now := time.Now()
	if to := p.net.at(a.Addr); to != nil {
		from := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(p.addr))
		select {
		case to.packets <- &memberlist.Packet{Buf: slices.Clone(b), From: from, Timestamp: now}:
		default:
		}
	}
	return now, nil
}

func (p *memoryPort) PacketCh() <-chan *memberlist.Packet { return p.packets }

func (p *memoryPort) StreamCh() <-chan net.Conn { return p.streams }

func (p *memoryPort) Shutdown() error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.net.ports[p.addr] == p {
		delete(p.net.ports, p.addr)
		close(p.ended)
	}
	return nil
}
