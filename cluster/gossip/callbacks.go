package gossip

import (
	"fmt"
	"log/slog"

	"github.com/hashicorp/memberlist"
)

// callbacks receives memberlist's calls into this package. memberlist makes some of them with its own lock held and
// others in its only receive loop, so they never block and never call memberlist.
type callbacks struct {
	members  *members
	hints    *Hints
	outgoing memberlist.TransmitLimitedQueue
	logger   *slog.Logger
}

func newCallbacks(c *Config, self Member) *callbacks {
	listed := newMembers(self)
	return &callbacks{
		members: listed,
		hints:   c.Hints,
		outgoing: memberlist.TransmitLimitedQueue{
			RetransmitMult: hintRetransmits,
			NumNodes:       func() int { return len(listed.answering()) },
		},
		logger: c.Logger,
	}
}

// NodeMeta implements memberlist.Delegate. The size was checked before this meta became self.
func (c *callbacks) NodeMeta(int) []byte {
	self := c.members.own()
	b, err := self.encode()
	if err != nil {
		panic(fmt.Sprintf("gossip: the meta of this node was not checked: %v", err))
	}
	return b
}

// NotifyMsg implements memberlist.Delegate. A hint that is news here is passed on, so that it reaches all nodes.
func (c *callbacks) NotifyMsg(message []byte) {
	for _, hint := range c.merge(message) {
		c.tell(hint)
	}
}

// GetBroadcasts implements memberlist.Delegate.
func (c *callbacks) GetBroadcasts(overhead, limit int) [][]byte {
	return c.outgoing.GetBroadcasts(overhead, limit)
}

// LocalState implements memberlist.Delegate.
func (c *callbacks) LocalState(bool) []byte {
	return encodeHints(c.members.own().Cluster, c.hints.all())
}

// MergeRemoteState implements memberlist.Delegate. The hints go no further: every node exchanges its state by itself.
func (c *callbacks) MergeRemoteState(state []byte, _ bool) { c.merge(state) }

// merge keeps the hints of our cluster and returns those that were news.
func (c *callbacks) merge(message []byte) (news []Hint) {
	cluster, hints, err := decodeHints(message)
	if err != nil {
		c.logger.Debug("gossip: hints refused", "error", err)
		return nil
	}
	if cluster == "" || cluster != c.members.own().Cluster {
		return nil
	}
	for _, hint := range hints {
		if c.hints.Merge(hint) {
			news = append(news, hint)
		}
	}
	return news
}

// tell queues a hint for a few other nodes.
func (c *callbacks) tell(hint Hint) {
	c.outgoing.QueueBroadcast(&hintBroadcast{
		name:    fmt.Sprint(hint.Shard),
		message: encodeHints(c.members.own().Cluster, []Hint{hint}),
	})
}

// NotifyAlive implements memberlist.AliveDelegate. An error keeps the node out.
func (c *callbacks) NotifyAlive(n *memberlist.Node) error {
	if err := checkNode(n.Name); err != nil {
		return err
	}
	told, err := decodeMeta(n.Meta)
	if err != nil {
		return err
	}
	if !c.members.admits(n.Name, told) {
		return fmt.Errorf("gossip: %s belongs to cluster %s, not to ours", n.Name, told.Cluster)
	}
	return nil
}

// NotifyMerge implements memberlist.MergeDelegate. It refuses a join in which all nodes belong to another cluster. A
// new node that has seen two clusters is not refused for it; NotifyAlive selects our nodes.
func (c *callbacks) NotifyMerge(peers []*memberlist.Node) error {
	ours, theirs := c.members.own().Cluster, ""
	for _, n := range peers {
		told, err := decodeMeta(n.Meta)
		if err == nil && !foreign(ours, told.Cluster) {
			return nil
		}
		theirs = told.Cluster
	}
	return fmt.Errorf("gossip: the seed belongs to another cluster: its id is %q, ours is %q; "+
		"a node never changes its cluster: correct --join, or start with an empty data dir", theirs, ours)
}

// NotifyJoin implements memberlist.EventDelegate.
func (c *callbacks) NotifyJoin(n *memberlist.Node) { c.members.put(n) }

// NotifyUpdate implements memberlist.EventDelegate.
func (c *callbacks) NotifyUpdate(n *memberlist.Node) { c.members.put(n) }

// NotifyLeave implements memberlist.EventDelegate.
func (c *callbacks) NotifyLeave(n *memberlist.Node) { c.members.gone(n.Name) }

// NotifyConflict implements memberlist.ConflictDelegate.
func (c *callbacks) NotifyConflict(known, other *memberlist.Node) {
	c.logger.Warn("gossip: two addresses announce the same node: if it did not just move, two nodes were started from "+
		"copies of one data dir", "node", known.Name, "known", known.Address(), "other", other.Address())
}
