package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/sleep"
)

const (
	// successionWithin bounds how long this node tries to succeed a leader that has died: its groups miss its
	// heartbeats then.
	successionWithin = time.Second
	// successionPause is the time before it asks the other voters again: they notice the death at about the same time.
	// Each pause is twice as long as the one before: an election begins to take time.
	successionPause = 20 * time.Millisecond
	// attestWithin is how long it waits for the others in a round.
	attestWithin = 100 * time.Millisecond
)

// succession has groups elect another leader at once when the process of theirs has died. Without it each follower
// would wait until it has missed the leader's heartbeats. It holds no state; all methods may be called concurrently.
type succession struct {
	node     string // id of this node
	replicas *replicaSet
	peers    *peers
	tasks    *tasks
	logger   *slog.Logger
}

// silent is told when all connections of another node have ended as those of a process that has died.
func (s *succession) silent(node string) {
	if !s.peers.hasJoined() {
		return
	}
	s.peers.probe.Forget(node) //mutant:handed-over-to-the-dead
	s.tasks.start("succeeding node "+node, func(ctx context.Context) { s.succeed(ctx, node) })
}

// succeed is a task: it asks the other voters what they know of a node that has died, and has those replicas stand for
// election that should, until each of its groups has another leader or none.
func (s *succession) succeed(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, successionWithin)
	defer cancel()
	for pause := successionPause; ; pause *= 2 {
		own := slices.DeleteFunc(s.survivors(node), func(v placement.Survivor) bool { return !v.Dead })
		if len(own) == 0 {
			return
		}
		others := s.ask(ctx, node, own)
		heirs := slices.DeleteFunc(own, func(v placement.Survivor) bool {
			return !placement.Succeeds(&v, s.voters(&v), others)
		})
		// What was true before the others looked and is true after that was true while they did: no link has mended
		// meanwhile.
		if len(heirs) > 0 && s.peers.port.IsDead(node) { //mutant:evidence-of-different-times
			s.stand(heirs)
		}
		if !sleep.For(ctx, pause) {
			return
		}
	}
}

// survivors describes the replicas here, for a node that asks whether another one has died.
func (s *succession) survivors(dead string) (all []placement.Survivor) {
	isDead := s.peers.hasJoined() && s.peers.port.IsDead(dead)
	for _, r := range s.replicas.all() {
		known := r.group.Succession()
		all = append(all, placement.Survivor{Shard: r.Shard, Name: r.name(), Leader: known.Leader, Term: known.Term,
			Dead:     isDead && nodeOf(known.Leader) == dead, //mutant:any-leader-is-dead
			LastTerm: known.LastTerm, LastIndex: known.LastIndex})
	}
	return all
}

// ask asks the nodes of the other voters of groups what they know.
func (s *succession) ask(ctx context.Context, dead string, own []placement.Survivor) (all []placement.Survivor) {
	ctx, cancel := context.WithTimeout(ctx, attestWithin)
	defer cancel()
	var nodes []string
	for i := range own {
		for _, voter := range s.voters(&own[i]) {
			nodes = append(nodes, nodeOf(voter))
		}
	}
	slices.Sort(nodes)
	var mu sync.Mutex // guards all
	each(slices.Compact(nodes), func(node string) {
		if node == s.node || node == dead {
			return
		}
		report, err := s.peers.probe.Ask(ctx, node, placement.Question{Died: dead})
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, survivor := range report.Survivors {
			if nodeOf(survivor.Name) == node {
				all = append(all, survivor)
			}
		}
	})
	return all
}

// stand has replicas stand for election.
func (s *succession) stand(heirs []placement.Survivor) {
	for _, heir := range heirs {
		r := s.replicas.of(heir.Shard)
		if r != nil && r.name() == heir.Name && r.group.Succeed(heir.Leader, heir.Term) {
			s.logger.Info("standing for election: the leader's process has died", "replica", heir.Name,
				"leader", heir.Leader, "term", heir.Term)
		}
	}
}

// voters names the voters of a replica's group, as that knows them.
func (s *succession) voters(of *placement.Survivor) (names []string) {
	r := s.replicas.of(of.Shard)
	if r == nil {
		return nil
	}
	members, _, err := r.group.Members()
	if err != nil {
		return nil
	}
	for _, m := range members {
		if m.Voter {
			names = append(names, m.Name)
		}
	}
	return names
}
