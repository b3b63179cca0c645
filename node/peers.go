package node

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

const (
	// silentMost is how long a node may be silent and still be taken for alive.
	silentMost = 2 * time.Second
	// clockAheadMost is less than the lead at which an owner hands a shard over (actor), so that it does not get it
	// back at once.
	clockAheadMost = 300 * time.Millisecond
	// endLeasesWithin is how long a change by hand waits for the other nodes to return their leases.
	endLeasesWithin = 500 * time.Millisecond
	// caughtUpEntries is how far behind a learner may be to become a voter: as far as a follower is behind now and
	// then.
	caughtUpEntries = 128
)

// peers is what this node knows of the other nodes by gossip and by asking them, and its ways to them. Gossip is there
// from the start, port and probe once the node has joined. The port answers other nodes a moment before: methods that
// ask the probe know nothing until then. All methods may be called concurrently, except for join, drainHops and leave.
type peers struct {
	node   string // id of this node
	view   *clusterView
	dir    *dataDir
	gossip Membership // set before any other goroutine is started

	joined chan struct{} // closed once port and probe are set
	port   *peer.Port
	probe  *peer.HealthProbe
}

// join opens the peer port for the cluster that this node belongs to, and starts the health probe.
func (p *peers) join(port peer.Config, probe peer.HealthProbeConfig) (err error) {
	port.Resolve = p.addr
	if p.port, err = peer.Listen(port); err != nil {
		return err
	}
	probe.Others, probe.Dial = p.others, p.port.DialAsk
	p.probe = peer.StartHealthProbe(probe)
	close(p.joined)
	return nil
}

// onAsk holds a conversation with a node over a connection of its own, which ends with ctx.
func (p *peers) onAsk(ctx context.Context, node string, talk func(net.Conn) error) error {
	conn, err := p.port.DialAsk(ctx, node)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	return talk(conn)
}

// endLeases has the other nodes return their leases of a key, for a change of it by hand. The leases of a node that does
// not answer, or not in time, live to their ends.
func (p *peers) endLeases(namespace, policy, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), endLeasesWithin)
	defer cancel()
	question := placement.Question{End: &placement.LeasedKey{Namespace: namespace, Policy: policy, Key: []byte(key)}}
	each(slices.Collect(maps.Keys(p.answering())), func(node string) { _, _ = p.askApart(ctx, node, question) })
}

// askApart asks a node over a connection of its own: the answer may take a while, which others do not wait for.
func (p *peers) askApart(ctx context.Context, node string, q placement.Question) (report placement.Report, err error) {
	err = p.onAsk(ctx, node, func(conn net.Conn) (err error) {
		report, err = peer.Ask(conn, q)
		return err
	})
	return report, err
}

// hasJoined reports whether this node belongs to a cluster, with port and probe open.
func (p *peers) hasJoined() bool {
	select {
	case <-p.joined:
		return true
	default:
		return false
	}
}

// recheck ends connections that would not be made any more, because the table or the cluster key has changed.
func (p *peers) recheck() {
	if p.hasJoined() {
		p.port.Recheck()
	}
}

// dialHop connects to another node's hop.
func (p *peers) dialHop(ctx context.Context, node string) (net.Conn, error) {
	if !p.hasJoined() {
		return nil, errors.New("this node belongs to no cluster yet")
	}
	return p.port.DialHop(ctx, node)
}

// ask asks the other nodes at once, so that news travels now. Before this node has joined there is no node to ask.
func (p *peers) ask() {
	if p.hasJoined() {
		p.probe.Kick()
	}
}

// others names the nodes to ask: those of the table and those that gossip knows. A removed one may be back with a new
// disk.
func (p *peers) others() []string {
	var nodes []string
	for _, node := range p.view.newestTable().Listed() {
		nodes = append(nodes, node.ID)
	}
	for _, m := range p.gossip.Members() {
		if m.Cluster == p.dir.cluster() && m.State == gossip.MemberAlive {
			nodes = append(nodes, m.Node)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	return slices.DeleteFunc(nodes, func(node string) bool { return node == p.node })
}

// addr is the address of a node's peer port: where it answers, else from gossip, which hears of a move first, else from
// the table. As long as a node answers, a second process under its id is not mistaken for it.
func (p *peers) addr(node string) (string, bool) {
	if report := p.reports()[node]; report.At != "" && p.silent()[node] == 0 {
		return report.At, true
	}
	for _, m := range p.gossip.Members() {
		if m.Node == node && m.State == gossip.MemberAlive {
			return m.PeerAddr, true
		}
	}
	if listed := p.view.newestTable().Node(node); listed != nil {
		return listed.PeerAddr, true
	}
	return "", false
}

// ownAddr is where the others reach this node.
func (p *peers) ownAddr() string {
	for _, m := range p.gossip.Members() {
		if m.Node == p.node {
			return m.PeerAddr
		}
	}
	return ""
}

// askAt asks the process at an address that is this node.
func (p *peers) askAt(ctx context.Context, addr string, q placement.Question) (placement.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, silentMost)
	defer cancel()
	conn, err := p.port.DialOwn(ctx, addr)
	if err != nil {
		return placement.Report{}, err
	}
	defer conn.Close()
	return peer.Ask(conn, q)
}

// haveBeenAsked reports whether another node has answered since this process started, or each has failed to.
func (p *peers) haveBeenAsked() bool {
	if len(p.reports()) > 0 {
		return true
	}
	silent := p.silent()
	return !slices.ContainsFunc(p.others(), func(node string) bool { return silent[node] == 0 })
}

// reports returns the last report of each other node that answers; none before this node has joined.
func (p *peers) reports() map[string]placement.Report {
	if !p.hasJoined() {
		return nil
	}
	return p.probe.Reports()
}

// answering returns the last report of each other node that answers now.
func (p *peers) answering() map[string]placement.Report {
	reports, silent := maps.Clone(p.reports()), p.silent()
	maps.DeleteFunc(reports, func(node string, _ placement.Report) bool { return silent[node] >= silentMost })
	return reports
}

// silent is how long each other node has been silent; none is known to be before this node has joined.
func (p *peers) silent() map[string]time.Duration {
	if !p.hasJoined() {
		return nil
	}
	return p.probe.Silent()
}

// offset is how far this machine's clock is ahead of the nodes' clocks; ok: enough of them are known.
func (p *peers) offset(nodes []string) (ahead time.Duration, ok bool) {
	if !p.hasJoined() {
		return 0, false
	}
	return p.probe.Offset(nodes)
}

// isClockAhead reports whether a node would soon hand the shard over again because its clock is ahead of most voters'.
func (p *peers) isClockAhead(id shard.ID, node string) bool {
	ofVoters, ok := p.offset(p.view.voterNodes(id)) // how far this node's clock is ahead of them
	ofNode, known := p.offset([]string{node})
	return ok && known && ofVoters-ofNode > clockAheadMost
}

// leads counts the groups that a node leads, by its own report.
func (p *peers) leads(node string) (count int) {
	for _, r := range p.reports()[node].Replicas {
		if r.Leading {
			count++
		}
	}
	return count
}

// isReady reports whether a node answers and is fit to lead.
func (p *peers) isReady(node string) bool {
	report, ok := p.answering()[node]
	return ok && report.Fit()
}

// member is the last report of a group's member, by its name; nil if its node does not answer, or does not have it.
func (p *peers) member(id shard.ID, name string) *placement.ReplicaReport {
	r, _, _ := placement.ParseName(name)
	return replicaIn(p.reports()[r.Node], id, r.Number)
}

// isSound reports whether a member of a group, by its name, answers and could decide.
func (p *peers) isSound(id shard.ID, name string) bool {
	member := p.member(id, name)
	return member != nil && member.Stopped == "" && p.isReady(nodeOf(name))
}

// isCaughtUp reports whether a member of the group that r leads answers it and has nearly all of its log, by the
// member's own report.
func (p *peers) isCaughtUp(r *replica, name string) bool {
	if name == r.name() {
		return true
	}
	member := p.member(r.Shard, name)
	return member != nil && member.Applied+caughtUpEntries >= r.group.Status().CommitIndex &&
		r.group.Behind(name) == nil //mutant:handed-over-unheard
}

// drainHops lets requests that other nodes forwarded here end.
func (p *peers) drainHops() {
	if p.port != nil {
		p.port.DrainHops()
	}
}

// leave stops asking the other nodes, and says goodbye.
func (p *peers) leave() {
	if p.probe != nil {
		p.probe.Stop()
	}
	if p.gossip != nil {
		p.gossip.Stop()
	}
}
