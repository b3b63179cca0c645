package testcluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Options describe the cluster to start.
type Options struct {
	Binary   string   // path of the stint binary
	Nodes    int      // number of founding nodes
	Dir      string   // for data, logs and policies; the caller removes it
	Shards   int      // 0 means the binary's default
	Replicas int      // 0 means the binary's default
	Policies string   // text of the policies file; may be empty
	Args     []string // more flags for every node
	Direct   bool     // no relay between the nodes: for measurements
	Redis    bool     // every node also serves the Redis protocol
	// TLS is for asking the nodes whether they are ready, if Args make them serve clients with TLS; nil asks in
	// plaintext.
	TLS *tls.Config
}

// Cluster is a running cluster. Nodes count from 0. All methods may be called concurrently.
type Cluster struct {
	options Options
	subnet  *subnet
	links   *Links
	mesh    *mesh // nil if Direct

	mu    sync.Mutex
	nodes []*node // only grows
}

// Start starts the nodes and waits until each of them can serve or forward every shard, or ctx ends.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := begin(ctx, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// begin starts the nodes and waits until they are ready.
func begin(ctx context.Context, c *Cluster) error {
	for i := range c.Len() {
		if err := c.Restart(i); err != nil {
			return err
		}
	}
	if err := c.AwaitReady(ctx); err != nil {
		return fmt.Errorf("%w\n%s%s", err, c.Logs(), c.stacks())
	}
	return nil
}

// New prepares a cluster without starting any node.
func New(o Options) (*Cluster, error) {
	if o.Nodes < 1 || o.Nodes > nodesMax {
		return nil, fmt.Errorf("testcluster: %d nodes are not within 1..%d", o.Nodes, nodesMax)
	}
	subnet, err := claimSubnet()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, subnet: subnet}
	c.links = newLinks(c.Len)
	if !o.Direct {
		c.mesh = newMesh(c)
	}
	if err := c.prepare(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) prepare() error {
	if err := os.MkdirAll(c.options.Dir, 0o700); err != nil {
		return err
	}
	var key [32]byte
	rand.Read(key[:])
	if err := os.WriteFile(c.options.key(), []byte(hex.EncodeToString(key[:])), 0o600); err != nil {
		return err
	}
	if c.options.Policies != "" {
		if err := os.WriteFile(c.options.policies(), []byte(c.options.Policies), 0o600); err != nil {
			return err
		}
	}
	for range c.options.Nodes {
		if _, err := c.admit(); err != nil {
			return err
		}
	}
	return nil
}

// admit reserves a place for one more node, with the relays of its traffic, but starts no process.
func (c *Cluster) admit() (int, error) {
	c.mu.Lock()
	i := len(c.nodes)
	if i == nodesMax {
		c.mu.Unlock()
		return 0, fmt.Errorf("testcluster: there is room for %d nodes", nodesMax)
	}
	n := &node{name: fmt.Sprintf("n%d", i+1), ip: c.subnet.ip(i + 1), announced: c.subnet.ip(i + 1),
		dir: filepath.Join(c.options.Dir, fmt.Sprintf("n%d", i+1))}
	if c.mesh != nil {
		n.announced = c.subnet.ip(100 + i + 1)
	}
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return 0, err
	}
	if c.mesh != nil {
		return i, c.mesh.front(i, n)
	}
	return i, nil
}

// Close kills the processes that still run, and waits for them.
func (c *Cluster) Close() {
	for i := range c.Len() {
		_ = c.Kill(i) // it may have ended
	}
	c.links.close()
	if c.mesh != nil {
		c.mesh.close()
	}
	c.subnet.release()
}

// Len returns the number of nodes, including those that ended.
func (c *Cluster) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.nodes)
}

// Name returns the node's id: n1 for node 0.
func (c *Cluster) Name(i int) string { return c.node(i).name }

// Addr returns the API address of a node, host:port.
func (c *Cluster) Addr(i int) string { return c.node(i).addr() }

// RedisAddr returns the address at which a node serves the Redis protocol, if Options.Redis is set.
func (c *Cluster) RedisAddr(i int) string { return hostPort(c.node(i).ip, redisPort) }

// Beside returns an address with this port, on the cluster's subnet, at which no node listens: for programs that a test
// runs beside it.
func (c *Cluster) Beside(port int) string { return hostPort(c.subnet.ip(beside), port) }

const beside = 253

// Addrs returns the API addresses of all nodes.
func (c *Cluster) Addrs() (all []string) {
	for i := range c.Len() {
		all = append(all, c.Addr(i))
	}
	return all
}

// Links returns the links between the nodes, which can be cut.
func (c *Cluster) Links() *Links { return c.links }

// Add starts one more node, which joins. It does not wait until the node is ready.
func (c *Cluster) Add() (int, error) {
	i, err := c.admit()
	if err != nil {
		return 0, err
	}
	return i, c.Restart(i)
}

// Dir returns the data directory of a node.
func (c *Cluster) Dir(i int) string { return c.node(i).data() }

// KeyFile returns the cluster key file of all nodes.
func (c *Cluster) KeyFile() string { return c.options.key() }

// Wipe removes the data of a node that has ended.
func (c *Cluster) Wipe(i int) error {
	if c.Running(i) {
		return fmt.Errorf("testcluster: %s still runs", c.Name(i))
	}
	return os.RemoveAll(c.Dir(i))
}

// SetClock makes a node's wall clock wrong by offset from now on. Only a binary built with the tag chaos obeys it.
func (c *Cluster) SetClock(i int, offset time.Duration) error {
	file := c.node(i).clock()
	temporary := file + ".new"
	if err := os.WriteFile(temporary, fmt.Appendln(nil, offset.Milliseconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

func (c *Cluster) node(i int) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// byIP finds a node by the address it listens on, or returns -1.
func (c *Cluster) byIP(ip string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.IndexFunc(c.nodes, func(n *node) bool { return n.ip == ip })
}

func (o *Options) key() string { return filepath.Join(o.Dir, "cluster.key") }

func (o *Options) policies() string { return filepath.Join(o.Dir, "policies.yaml") }
