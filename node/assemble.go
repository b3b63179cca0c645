package node

import (
	"cmp"
	"maps"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// assemble connects the parts of the node: each gets what it needs. It starts none of them. Each part is given those
// above it; the exception is the view, which wakes the router that asks it, and has the connections of removed nodes
// cut.
func (n *Node) assemble(policies *policy.Set) {
	now, logger, stopping := n.config.now(), n.config.Logger, n.stopping.Load
	wake := func() { n.router.Wake() }
	n.view = newClusterView(viewConfig{
		node:         n.id,
		dir:          n.dir,
		documents:    n.documents,
		binaryLevel:  n.config.newestLevel(),
		release:      n.config.Version,
		policiesFile: n.config.PoliciesFile,
		filePolicies: policies,
		logger:       logger,
		fail:         n.fail,
		//mutant:new-table-cuts-nobody
		onTable:        func() { n.peers.recheck(); wake() },
		onRulesChanged: func() { n.replicas.hintActors(); n.ports.rulesChanged() },
	}, n.tokens)
	n.stale = &staleReader{now: now, view: n.view, replicas: n.replicas}
	n.peers = &peers{node: n.id, view: n.view, dir: n.dir, joined: make(chan struct{})}
	n.readiness = &readiness{node: n.id, view: n.view, tokens: n.tokens, replicas: n.replicas, peers: n.peers,
		stopping: stopping}
	budget := top.NewBudget(0)
	counted := &topCounts{replicas: n.replicas, repeats: newRepeatedDenials(n.config.World.Now, budget),
		traffic: n.metrics.Traffic.Periods}
	n.assembleRouter(counted.repeats.count)
	n.documents.router = n.router
	n.succession = &succession{node: n.id, replicas: n.replicas, peers: n.peers, tasks: n.tasks, logger: logger}
	n.duplicates = &duplicateGuard{node: n.id, alone: n.ports.peers == nil, life: placement.RandomID(), now: now,
		view: n.view, peers: n.peers, tasks: n.tasks, fail: n.fail, changed: n.changed, twice: make(map[string]time.Time)}
	writes := &writeTimes{now: now}
	memory := cmp.Or(n.config.World.Memory, Memory())
	records := &recordBudget{view: n.view, replicas: n.replicas, peers: n.peers, most: int(memory / 2)}
	n.reporter = &reporter{node: n.id, now: now, dir: n.dir, view: n.view, documents: n.documents, replicas: n.replicas,
		counted: counted, tokens: n.tokens, peers: n.peers, duplicates: n.duplicates, hints: n.hints,
		key: n.key, stopping: stopping, changed: n.changed, survivors: n.succession.survivors,
		ports: n.ports, testClock: n.config.TestClock, leases: n.router.LeasesHeld, endLeases: n.router.EndLeases,
		machine: &machine{dir: n.dir, replicas: n.replicas, memory: memory, budget: records, writes: writes}}
	n.assembleAdmins()
	n.founder = &founder{node: n.id, config: n.config, policies: policies, dir: n.dir, view: n.view, peers: n.peers,
		reporter: n.reporter, changed: n.changed, throttle: newComplaints()}
	n.handover = &handover{node: n.id, now: now, view: n.view, replicas: n.replicas, peers: n.peers, tasks: n.tasks,
		logger: logger, changed: n.changed}
	n.metrics.Health(scrapedHealth{admin: n.admin, readiness: n.readiness, dir: n.dir, ports: n.ports,
		router: n.router, hop: n.hop, top: budget}.read)
	n.assembleDecisions(counted)
	observer := &replicaObserver{node: n.id, metrics: n.metrics, logger: logger, view: n.view, peers: n.peers,
		wake: wake, changed: n.changed, fail: n.fail, writes: writes, bus: n.decisions,
		handOver: n.handover.giveAwaySoon}
	n.opener = &opener{
		node:       n.id,
		world:      n.config.World,
		dir:        n.dir,
		view:       n.view,
		peers:      n.peers,
		replicas:   n.replicas,
		observer:   observer,
		budget:     records,
		top:        budget,
		acceptStep: n.config.AcceptTime,
		ahead:      n.config.testClock.aheadBy,
		logger:     logger,
		changed:    n.changed,
	}
	n.assembleReconciler(records)
}

// assembleAdmins makes the parts that answer the API's calls about the cluster, and those that send to sinks.
func (n *Node) assembleAdmins() {
	adminBase := adminBase{
		node:      n.id,
		now:       n.config.now(),
		view:      n.view,
		documents: n.documents,
		peers:     n.peers,
		reporter:  n.reporter,
		logger:    n.config.Logger,
		changed:   n.changed,
	}
	n.admin = &admin{adminBase: adminBase, replicas: n.replicas, tokens: n.tokens,
		backup: newBackupDocument(n.documents)}
	n.tokenAdmin = &tokenAdmin{adminBase: adminBase, tokens: n.tokens, adminToken: n.config.adminToken}
	n.secretAdmin = &secretAdmin{adminBase: adminBase, reading: newTurns()}
	sinks := n.config.World.Sinks
	n.sinkAdmin = newSinkAdmin(adminBase)
	poster := notify.NewPoster(notify.Config{Allow: n.config.SinkAllow, Roots: sinks.Roots, Dial: n.config.World.Dial,
		Timeout: sinks.Timeout, Agent: "stint/" + n.config.Version})
	out := func() sinkSender {
		return sinkSender{
			now:      n.config.now(),
			view:     n.view,
			replicas: n.replicas,
			decide:   n.router.Decide,
			sinks:    n.sinkAdmin,
			poster:   poster,
			pace:     sinks.Pace,
			metrics:  n.metrics,
			logger:   n.config.Logger,
			throttle: newComplaints(),
		}
	}
	n.dispatcher = &dispatcher{sinkSender: out()}
	n.pusher = &pusher{sinkSender: out(), rests: make(map[string]sinkRest)}
	n.dispatcher.failingSinks = func() map[string]string {
		failing := n.pusher.failing()
		maps.Copy(failing, n.dispatcher.failing())
		return failing
	}
	n.reporter.failingSinks = n.dispatcher.failingSinks
	n.reporter.skippedBills = n.pusher.skippedBills
	n.reporter.usesWanted = n.tokenAdmin.wantsUses
}

func (n *Node) assembleRouter(repeated func(*shard.Request, *shard.Decision)) {
	n.hints = gossip.NewHints(placement.MaxShards)
	n.hop = hop.New(hop.Near, n.peers.dialHop)
	n.router = routing.New(routing.Config{
		Node:         n.id,
		Slots:        n.slots,
		Places:       n.view.voterNodes,
		Local:        n.replicas.owner,
		Leader:       n.replicas.leader,
		Forward:      n.hop,
		Hints:        n.hints,
		Sessions:     n.view.hasSessions,
		Policies:     n.view.revision,
		Repeated:     repeated,
		EndElsewhere: n.peers.endLeases,
		Ahead:        n.config.testClock.aheadBy,
		Slept:        machineSlept,
		Now:          n.config.now(),
	})
}

// assembleDecisions makes what tells others of this node's decisions.
func (n *Node) assembleDecisions(counted *topCounts) {
	n.topReader = &topReader{view: n.view, counted: counted, peers: n.peers, reporter: n.reporter}
	n.watcher = &watcher{view: n.view, peers: n.peers, reporter: n.reporter}
	n.decisionLog = n.config.newDecisionLog(n.topReader.HideKey, n.metrics)
	n.decisions = decisions.NewBus(n.id, n.decisionLog)
}

func (n *Node) assembleReconciler(records *recordBudget) {
	now, logger, stopping := n.config.now(), n.config.Logger, n.stopping.Load
	mover := &mover{
		view:     n.view,
		submit:   n.router.Submit,
		tellAll:  n.peers.ask,
		billing:  n.sinkAdmin.billing,
		moved:    n.metrics.SlotMoved,
		tasks:    n.tasks,
		stopping: stopping,
		logger:   logger,
		waits:    make(map[slot.ID]placement.MoveReport),
	}
	n.reporter.moves = mover.reports
	n.reconciler = &reconciler{
		node: n.id, now: now, dir: n.dir, view: n.view, duplicates: n.duplicates, documents: n.documents,
		replicas: n.replicas, opener: n.opener, budget: records,
		handover: n.handover, tasks: n.tasks, firstTable: n.founder.writeFirstTable, tokens: n.tokens,
		firstToken: n.tokenAdmin.writeFirst, stopping: stopping, fail: n.fail, logger: logger, changed: n.changed,
		sample: n.metrics.Traffic.Sample, throttle: newComplaints(),
		judge: &judge{
			node:     n.id,
			now:      now,
			dir:      n.dir,
			view:     n.view,
			replicas: n.replicas,
			peers:    n.peers,
			opener:   n.opener,
			handover: n.handover,
			logger:   logger,
			changed:  n.changed,
			throttle: newComplaints(),
		},
		aligner: &aligner{view: n.view, peers: n.peers, handover: n.handover, tasks: n.tasks,
			logger: logger, changed: n.changed},
		planner: &planner{
			now:          now,
			view:         n.view,
			documents:    n.documents,
			peers:        n.peers,
			reporter:     n.reporter,
			tasks:        n.tasks,
			logger:       logger,
			replaceAfter: n.config.ReplaceAfter,
		},
		mover: mover,
		debts: &debts{now: now, router: n.router, slots: n.view.slots, tasks: n.tasks, stopping: stopping},
		canary: &canary{
			node:     n.id,
			now:      now,
			decide:   n.router.Decide,
			shards:   n.view.shards,
			slots:    n.view.slots,
			nodes:    n.view.listed,
			stopping: stopping,
			tasks:    n.tasks,
			observer: n.metrics,
			logger:   logger,
			books:    make(map[shard.ID]*canaryBook),
		},
	}
}
