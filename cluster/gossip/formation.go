package gossip

import "fmt"

// Formation describes a cluster that is being founded: its founders and its shape. Its creator, the lowest of the
// founders, proposes it. A Formation is never changed once it was handed on: changes are made to a copy.
type Formation struct {
	Cluster  string
	Founders []string // node ids, sorted; the first is the creator
	Shards   uint32   // number of data shards
	Replicas int      // target number of voters of each group
	Go       bool     // every founder has accepted: the founders create their replicas of the system shard
}

// FormationAction is a node's next action.
type FormationAction int

const (
	// FormWait means to do nothing until members change; Why gives the reason.
	FormWait FormationAction = iota
	// FormJoin means to take Cluster as this node's cluster, forever. It is repeated to a node that has taken it
	// already.
	FormJoin
	// FormPropose means to draw a cluster id, and to keep and announce a Formation of it with Founders.
	FormPropose
	// FormAccept means to keep Formation, take its cluster, and announce both.
	FormAccept
	// FormGo means to keep and announce Formation, which now has Go set.
	FormGo
	// FormFound means to create this node's replica of the system shard, as one of the founders' voters.
	FormFound
)

// FormationStep is the result of Form.
type FormationStep struct {
	Action    FormationAction
	Why       string     // for the log
	Cluster   string     // of FormJoin
	Founders  []string   // of FormPropose
	Formation *Formation // of FormAccept, FormGo and FormFound
}

// Form decides a node's next step into a cluster, from its kept state and the members that it sees. Of self it reads
// the Node, what it Expects, and the Cluster and the Formation as they are on disk. The caller asks again after every
// step and whenever members change, until it has carried out FormJoin or FormFound.
//
// Two clusters are kept apart because a node takes one cluster id, ever, and keeps it on disk before announcing it. The
// creator says go when all founders have taken its id, and after that none of them can take another. So a node's view
// may be late or incomplete: at worst it makes the node wait, and some waits need an operator. To resume after a crash
// at any point, the caller keeps a Formation before it announces: on FormPropose the one it made; on FormAccept, FormGo
// and FormFound the one of the step. When its replica of the system shard is created, it keeps the cluster and forgets
// the Formation, because a node without a kept Formation only joins.
//
// Members that left or are suspect do not count, with two exceptions: a go that founders have received stays valid, and
// a node that has seen a cluster, even one that is gone, founds no other. (R12b.)
func Form(self Member, members []Member) FormationStep {
	v := newFormationView(&self, members)
	switch f := self.Formation; {
	case f != nil && (len(f.Founders) == 0 || self.Cluster != "" && self.Cluster != f.Cluster):
		return wait("this node kept cluster %q and a formation of cluster %q by %v: its data dir is damaged",
			self.Cluster, f.Cluster, f.Founders)
	case f != nil:
		return v.pursue(f)
	case self.Cluster != "":
		return FormationStep{Action: FormJoin, Cluster: self.Cluster,
			Why: fmt.Sprintf("this node belongs to cluster %q", self.Cluster)}
	}
	if step, found := v.join(); found {
		return step
	}
	if step, found := v.accept(); found {
		return step
	}
	return v.propose()
}

func wait(why string, args ...any) FormationStep {
	return FormationStep{Why: fmt.Sprintf(why, args...)}
}
