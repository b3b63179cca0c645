package node

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/bubble"
	"github.com/stint-io/stint/internal/testing/memfs"
	"github.com/stint-io/stint/internal/testing/memnet"
)

// memory is the network and the disk of one test that runs in a bubble. All its nodes and clients share them.
type memory struct {
	net    *memnet.Net
	client *memnet.Layer // what dials
	disk   *memfs.Disk

	mu    sync.Mutex
	ports int                     // given out so far
	towns map[string]*bubble.Town // by the addresses that lead there
}

// memories has the memory of each test that runs in a bubble.
var memories sync.Map

// inBubble runs a test in virtual time. The nodes that it starts have their ports and disks in memory. Each message
// takes a few milliseconds: where nothing takes time, a load that never rests would stop the clock. A goroutine that
// waits for a mutex stops it, too: what is held while time passes is a channel.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	bubble.Run(t, func(t *testing.T) {
		m := &memory{net: memnet.New(), disk: memfs.NewDisk(memfs.NewLasting()), towns: make(map[string]*bubble.Town)}
		m.client = m.net.Listen("127.0.0.1:1")
		m.net.Delay("", "", 4*time.Millisecond)
		memories.Store(t, m)
		t.Cleanup(func() { memories.Delete(t) })
		test(t)
	})
}

// part is t.Run, which bubbles do not allow.
func part(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Log(name)
	test(t)
}

// memoryOf is the memory of a test; nil: it does not run in a bubble.
func memoryOf(t testing.TB) *memory {
	m, _ := memories.Load(t)
	found, _ := m.(*memory)
	return found
}

// worldOf is the world of a test's nodes: memory in a bubble, else the machine.
func worldOf(t testing.TB) World {
	if m := memoryOf(t); m != nil {
		return World{FS: m.disk, Listen: m.listen, Dial: m.dial, Gossip: m.gossip}
	}
	return World{}
}

// listen is World.Listen.
func (m *memory) listen(addr string) (net.Listener, error) {
	if host, any := strings.CutSuffix(addr, ":0"); any {
		m.mu.Lock()
		m.ports++
		addr = net.JoinHostPort(host, strconv.Itoa(10_000+m.ports))
		m.mu.Unlock()
	}
	return m.net.Listen(addr), nil
}

// dial is World.Dial.
func (m *memory) dial(ctx context.Context, addr string) (net.Conn, error) {
	patience := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	conn, err := m.client.Dial(addr, patience)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: err}
	}
	return conn, nil
}

// gossip is World.Gossip. Nodes hear each other if the seeds of one lead to the other.
func (m *memory) gossip(config gossip.Config) (Membership, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var town *bubble.Town
	ways := config.Seeds
	if !strings.HasSuffix(config.Addr, ":0") { // else it cannot be a seed
		ways = append(slices.Clone(ways), config.Addr)
	}
	for _, addr := range ways {
		if m.towns[addr] != nil {
			town = m.towns[addr]
		}
	}
	if town == nil {
		town = bubble.NewTown()
	}
	for _, addr := range ways {
		m.towns[addr] = town
	}
	return town.MoveIn(config, 300*time.Millisecond), nil
}

// patient bounds a node's start, a request to it, and its stop by a time in a bubble. On the machine, which may be
// busy, only what does not come at all fails.
func patient(ctx context.Context, w World, inBubble time.Duration) (context.Context, context.CancelFunc) {
	if w.Dial == nil {
		inBubble = await.Patience
	}
	return context.WithTimeout(ctx, inBubble)
}

// clientOf is an HTTP client that reaches the ports of a node, and keeps no connection.
func clientOf(n *Node) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialerOf(n)}}
}

// dialerOf connects as the other nodes do.
func dialerOf(n *Node) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := n.config.World.Dial
	if dial == nil {
		return new(net.Dialer).DialContext
	}
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }
}

// dialLocal connects to the socket in a data directory.
func dialLocal(t testing.TB, ctx context.Context, dir string) (net.Conn, error) {
	if m := memoryOf(t); m != nil {
		return m.dial(ctx, filepath.Join(dir, localSocket))
	}
	return DialLocal(ctx, dir)
}

// onRealDisk gives a node of a test in a bubble a real disk: something besides nodes reads or writes its data
// directory.
func onRealDisk(t testing.TB) Config {
	config := testConfig(t)
	config.World.FS = nil
	return config
}

// newServer makes an HTTP server that nodes of the test reach, which is yet to be started.
func newServer(t testing.TB, handler http.Handler) *httptest.Server {
	if m := memoryOf(t); m != nil {
		listener, _ := m.listen("127.0.0.1:0")
		return &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	}
	return httptest.NewUnstartedServer(handler)
}

// grpcDialer makes a gRPC client reach the ports of a node.
func grpcDialer(n *Node) grpc.DialOption {
	dial := dialerOf(n)
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return dial(ctx, "tcp", addr)
	})
}

// redisDialer makes a Redis client reach the nodes of a test; nil: it does by itself.
func redisDialer(t testing.TB, secure *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	m := memoryOf(t)
	if m == nil {
		return nil
	}
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		conn, err := m.dial(ctx, addr)
		if err != nil || secure == nil {
			return conn, err
		}
		named := secure.Clone()
		named.ServerName, _, _ = net.SplitHostPort(addr)
		return tls.Client(conn, named), nil
	}
}
