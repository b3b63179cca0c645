package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// reporter exchanges reports with the other nodes: it describes this node, and learns from what the others say of
// themselves. It holds no state; all methods may be called concurrently once the data directory is open.
type reporter struct {
	node       string // id of this node
	now        func() time.Time
	dir        *dataDir
	view       *clusterView
	documents  *documents
	replicas   *replicaSet
	counted    *topCounts
	tokens     *tokens
	peers      *peers
	duplicates *duplicateGuard
	hints      *gossip.Hints
	key        *peer.KeyFile // nil: there is no cluster key
	stopping   func() bool   // whether this node stops
	changed    notifier
	ports      *ports

	// usesWanted, failingSinks, skippedBills and moves are of parts that are given the reporter, and set once these are
	// made.
	survivors    func(dead string) []placement.Survivor
	usesWanted   func() bool // whether a caller waits for the last uses of tokens
	testClock    bool        // tests move the clock
	machine      *machine
	failingSinks func() map[string]string             // by sink: why it fails
	skippedBills func() map[string]shard.SkippedBills // by sink
	moves        func() []placement.MoveReport
	leases       func() int                          // that this node holds
	endLeases    func(namespace, policy, key string) // ends this node's, when another node changes the key by hand
}

// question asks another node for what is newer than what this one knows.
func (p *reporter) question() placement.Question {
	return p.duplicates.identify(placement.Question{Versions: p.documents.versions(), TokenUses: p.usesWanted(),
		Stopping: p.stopping()}) //mutant:stops-without-a-goodbye
}

// answer is the report for a node that asks, with the documents that it does not know yet. A node that the table does
// not list is told what it needs to be registered: that this node is here, and which feature level it must know; and
// whether it was removed. A node that has a newer table is asked for it at once: a node that has just been registered
// waits for that.
func (p *reporter) answer(from string, q placement.Question) placement.Report {
	// A node that left and knows no table has a new disk. It waits until the id is free: by this table it would have to
	// stop.
	left := p.view.newestTable().Left(from)
	listed := p.view.listing(from) == peer.Listed && !(left && q.Versions[placement.TableDocument] == 0)
	if known := p.view.table.now().version; q.Versions[placement.TableDocument] > known && (known == 0 || listed) {
		p.peers.ask()
	}
	if !listed && p.view.hasTable() { //mutant:unlisted-peer-gets-documents
		levels := p.view.newestLevels()
		report := placement.Report{WallMicros: p.now().UnixMicro(), Levels: p.view.ownLevels(),
			Written: levels.Written(), Release: levels.Release}
		if left {
			report.RemovedBy = p.view.table.now().version
		}
		return report
	}
	if q.Top != nil && q.Top.Known() {
		ctx, cancel := context.WithTimeout(context.Background(), topWithin)
		defer cancel()
		own := p.counted.read(ctx, q.Top)
		own.Bound()
		return placement.Report{WallMicros: p.now().UnixMicro(), Top: &own}
	}
	if q.End != nil {
		p.endLeases(q.End.Namespace, q.End.Policy, string(q.End.Key))
		return placement.Report{WallMicros: p.now().UnixMicro()}
	}
	if q.Died != "" {
		return placement.Report{WallMicros: p.now().UnixMicro(), Survivors: p.survivors(q.Died)}
	}
	report := p.ownReport()
	report.Taken = p.duplicates.takenBy(from, &q)
	report.Documents, report.More = p.documents.newer(q.Versions)
	if q.TokenUses {
		report.TokenUses = p.tokens.usesKnown()
	}
	return report
}

// heard learns from another node's report.
func (p *reporter) heard(report placement.Report) {
	if p.view.listing(report.Node) == peer.Unlisted {
		p.changed.notify() // it can be registered now
	}
	if !p.duplicates.settled.Load() {
		p.changed.notify() // it may be known now that no other process is this node
	}
	if !p.believes(report.Node) {
		return
	}
	if report.RemovedBy > p.view.table.now().version && !p.view.fresh() { //mutant:stale-removal-believed
		p.view.expel()
		return
	}
	if err := p.view.checkWritten(report.Written, report.Release); err != nil {
		p.view.fail(err)
		return
	}
	learned := p.documents.learn(report.Documents)
	p.tokens.heardFrom(&report, learned)
	if len(report.Documents) > 0 {
		p.changed.notify()
	}
	for _, r := range report.Replicas {
		if r.Open {
			p.hints.Merge(gossip.Hint{Shard: r.Shard, Epoch: r.Epoch, Node: report.Node})
		}
	}
}

// believes reports whether this node learns from what another says. It does not from a node that its table does not
// list, as long as one that is listed answers. If none does, all may have been replaced while this node was away.
func (p *reporter) believes(node string) bool {
	if !p.view.hasTable() || p.view.listing(node) == peer.Listed {
		return true
	}
	for other := range p.peers.reports() {
		if p.view.listing(other) == peer.Listed {
			return false //mutant:unlisted-peer-believed
		}
	}
	return p.view.listing(node) == peer.Unlisted
}

// ownReport describes this node.
func (p *reporter) ownReport() placement.Report {
	report := placement.Report{
		Node:               p.node,
		WallMicros:         p.now().UnixMicro(),
		TableVersion:       p.view.table.now().version,
		SecretsVersion:     p.view.secrets.now().version,
		Levels:             p.view.ownLevels(),
		Fresh:              p.view.fresh(),
		Stopping:           p.stopping(),
		Full:               p.dir.stores.LowDisk(),
		Problems:           p.problems(),
		APICertificateEnds: p.ports.secure.Ends(),
	}
	if p.peers.hasJoined() {
		report.PeerCertificateEnds = p.peers.port.CertificateEnds()
	}
	if p.key != nil {
		report.KeyLines = p.key.Key().Fingerprints()
	}
	for _, r := range p.replicas.all() {
		report.Replicas = append(report.Replicas, r.report(p.view.revision(), p.view.room(r.Shard)))
	}
	slices.SortFunc(report.Replicas, func(a, b placement.ReplicaReport) int { return cmp.Compare(a.Shard, b.Shard) })
	if report.Life, report.Twice = p.duplicates.life, p.duplicates.problems(); p.duplicates.settled.Load() {
		report.At = p.duplicates.peers.ownAddr()
	}
	report.Machine, report.FailingSinks = p.machine.report(), p.failingSinks()
	report.SkippedBills, report.Moves = p.skippedBills(), p.moves()
	report.Edges, report.Leases = p.ports.edges(), p.leases()
	return report
}

// reports returns the last reports of all nodes that still answer, this one included.
func (p *reporter) reports() map[string]placement.Report {
	all := map[string]placement.Report{p.node: p.ownReport()}
	maps.Copy(all, p.peers.answering())
	return all
}

// problems lists what an operator should know about this node, beyond what the table and its replicas say.
func (p *reporter) problems() (problems []string) {
	for r, c := range p.replicas.convictions(convictedAgain) {
		problems = append(problems,
			fmt.Sprintf("node %s: its replica of shard %s was convicted at %s and is replaced: %s; "+
				"check the machine's memory", p.node, r.Shard, c.At.UTC().Format(time.RFC3339), c.Why))
	}
	own := p.view.newestTable().Node(p.node)
	if len(problems) > 1 && own != nil && own.State == placement.NodeDraining {
		problems = append(problems,
			fmt.Sprintf("node %s is drained, since several of its replicas were convicted within a day; "+
				"when its memory is known to be good, stint cluster drain %s --off lets it lead again", p.node, p.node))
	}
	add := func(what string, ends time.Time, expired string) {
		problems = append(problems, expiryProblems(p.node, what, ends, p.now(), expired)...)
	}
	const replaceAuthority = "certificates of it are refused: replace it, or take it out"
	if p.peers.hasJoined() {
		add("its peer certificate", p.peers.port.CertificateEnds(), "others refuse it")
		add("an authority in its --peer-ca file", p.peers.port.AuthoritiesEnd(), replaceAuthority)
	}
	add("its API certificate", p.ports.secure.Ends(), "clients refuse it")
	//mutant:expiring-authority-unreported
	add("an authority in its --api-client-ca file", p.ports.secure.AuthoritiesEnd(), replaceAuthority)
	if p.testClock {
		problems = append(problems, fmt.Sprintf("node %s: tests move its clock (--test-clock): no limit holds", p.node))
	}
	slices.Sort(problems)
	return problems
}
