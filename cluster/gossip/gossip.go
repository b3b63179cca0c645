package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/stint-io/stint/shard"
)

const (
	gossipKeyBytes = 32 // AES-256
	nodeBytesMax   = 64
	announceWait   = 500 * time.Millisecond // for a change of our meta, or our goodbye, to reach another node
	reclaimWait    = time.Second            // until a dead node may return under another address
)

// Gossip is this node's membership in the gossip. All methods may be called concurrently. After Stop, no other method
// may be called.
type Gossip struct {
	config    Config
	callbacks *callbacks
	list      *memberlist.Memberlist
	keys      *memberlist.Keyring      // nil disables encryption
	announce  sync.Mutex               // held while our meta or the keys change
	silent    atomic.Pointer[[]string] // see Silent; nil until the first search ends
	cancel    context.CancelFunc       // ends seek, report and the transport's dials
	running   sync.WaitGroup
	stop      sync.Once
}

// Start listens, and searches for seeds and registered nodes in the background until Stop. It fails if the
// configuration is invalid, the port is taken, or the advertised host is not found within advertiseWait. It does not
// fail if no node answers.
func Start(config Config) (*Gossip, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, err := config.start(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	g.cancel = cancel
	g.running.Go(func() { g.seek(ctx) })
	g.running.Go(func() { g.report(ctx) })
	return g, nil
}

// start opens the port and hands it to memberlist.
func (c Config) start(ctx context.Context) (*Gossip, error) {
	address, err := c.address(ctx)
	if err != nil {
		return nil, err
	}
	if len(c.Keys) == 0 && !c.Insecure && !address.bind.IsLoopback() {
		return nil, fmt.Errorf("cluster-key: gossip on %s leaves this machine, so it needs a key: "+
			"give --cluster-key FILE, or --insecure if nobody else can reach that network", c.Addr)
	}
	self, err := c.self(&address)
	if err != nil {
		return nil, err
	}
	logger := slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug)
	transport, err := c.listen(ctx, address, logger)
	if err != nil {
		return nil, err
	}
	g := &Gossip{config: c, callbacks: newCallbacks(&c, self)}
	settings := c.memberlist(g.callbacks)
	if settings.Keyring, err = c.keyring(); err != nil {
		return nil, errors.Join(err, transport.Shutdown())
	}
	settings.Transport, settings.Logger = transport, logger
	settings.AdvertiseAddr, settings.AdvertisePort = address.announced.String(), transport.GetAutoBindPort()
	g.keys = settings.Keyring
	if g.list, err = memberlist.Create(settings); err != nil {
		return nil, errors.Join(fmt.Errorf("gossip: %w", err), transport.Shutdown())
	}
	return g, nil
}

// SetKeys replaces the keys of a Gossip that has keys: the first one sends, all are accepted.
func (g *Gossip) SetKeys(keys [][]byte) error {
	g.announce.Lock()
	defer g.announce.Unlock()
	if g.keys == nil || len(keys) == 0 {
		return errors.New("gossip: keys cannot be given to gossip without any, nor all be taken away")
	}
	for _, key := range keys {
		if err := g.keys.AddKey(key); err != nil {
			return fmt.Errorf("gossip: key: %w", err)
		}
	}
	if err := g.keys.UseKey(keys[0]); err != nil {
		return fmt.Errorf("gossip: key: %w", err)
	}
	for _, old := range g.keys.GetKeys() {
		if !slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, old) }) {
			if err := g.keys.RemoveKey(old); err != nil { //mutant:gossip-keeps-a-removed-line
				return fmt.Errorf("gossip: key: %w", err)
			}
		}
	}
	return nil
}

// Members returns the nodes that gossip knows, by id, including this one. Nodes of another cluster are not listed;
// nodes that are gone stay listed for an hour.
func (g *Gossip) Members() []Member { return g.callbacks.members.list() }

// SetCluster announces that this node now belongs to a cluster. It fails if the node belongs to another one: a node
// accepts one cluster id, ever. (R12b.)
func (g *Gossip) SetCluster(id string) error {
	g.announce.Lock()
	defer g.announce.Unlock()
	self := g.callbacks.members.own()
	if self.Cluster == id {
		return nil
	}
	if self.Cluster != "" || id == "" {
		return fmt.Errorf("gossip: this node belongs to cluster %q and cannot join %q", self.Cluster, id)
	}
	self.Cluster = id
	return g.become(self)
}

// Announce announces that this node proposed or accepted a formation, and that it belongs to its cluster. Both go out
// at once, because a node with a cluster and without a formation shows that its cluster exists. It fails if the node
// belongs to another cluster, or if the announcement is too large.
func (g *Gossip) Announce(f Formation) error {
	g.announce.Lock()
	defer g.announce.Unlock()
	self := g.callbacks.members.own()
	if foreign(self.Cluster, f.Cluster) {
		return fmt.Errorf("gossip: this node belongs to cluster %q and cannot found %q", self.Cluster, f.Cluster)
	}
	f.Founders = slices.Clone(f.Founders)
	self.Cluster, self.Formation = f.Cluster, &f
	return g.become(self)
}

// AnnounceOwner announces that this node opened a shard, with an epoch.
func (g *Gossip) AnnounceOwner(id shard.ID, epoch uint64) {
	hint := Hint{Shard: id, Epoch: epoch, Node: g.config.Node}
	if g.config.Hints.Merge(hint) {
		g.callbacks.tell(hint)
	}
}

// Stop announces that this node leaves, for at most a second, closes the port and waits for the goroutines of this
// package. No callback of the configuration runs after it. A memberlist probe in flight ends by itself within a few
// seconds.
func (g *Gossip) Stop() { g.stop.Do(g.leave) }

func (g *Gossip) leave() {
	g.cancel()
	g.running.Wait()
	g.announce.Lock()
	defer g.announce.Unlock()
	self := g.callbacks.members.own()
	self.State = MemberLeft
	_ = g.become(self) // what was announced before has been checked
	if err := g.list.Leave(announceWait); err != nil {
		g.config.Logger.Debug("gossip: no node received our leave message", "error", err)
	}
	g.list.Shutdown() // its error is always nil
}

// become changes the meta of this node, unless it cannot be encoded. The caller holds announce, because memberlist
// allows one change at a time.
func (g *Gossip) become(self Member) error {
	if _, err := self.encode(); err != nil {
		return err
	}
	g.callbacks.members.become(self)
	if err := g.list.UpdateNode(announceWait); err != nil {
		g.config.Logger.Debug("gossip: a change of this node travels with the next full exchange", "error", err)
	}
	return nil
}

// report calls OnChange after every change; changes that come while it runs are combined into one more call.
func (g *Gossip) report(ctx context.Context) {
	for {
		select {
		case <-g.callbacks.members.changed:
			g.config.OnChange()
		case <-ctx.Done():
			return
		}
	}
}
