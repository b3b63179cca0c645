package cluster

import "fmt"

// Formation is a cluster that is being founded: who does it, and with what shape. It is proposed by its creator, the
// lowest of the founders. A Formation is never changed once it was handed on: changes are made to a copy.
type Formation struct {
	Cluster  string
	Founders []string // node ids, sorted; the first is the creator
	Shards   uint32
	Replicas int
	Go       bool // every founder has accepted: the founders create their replicas of the system shard
}

// FormationSelf is what a node knows of itself, from its disk and its flags.
type FormationSelf struct {
	Node      string
	Expect    int        // number of nodes that found a cluster together; 0: this one never founds, it only joins
	Cluster   string     // the cluster it belongs to; "": none
	Formation *Formation // the one it proposed or accepted, as last kept; nil: none
}

// FormationAction is what a node is to do next.
type FormationAction int

const (
	// FormWait is to do nothing until members change; Why says what for.
	FormWait FormationAction = iota
	// FormJoin is to take Cluster as this node's, for ever. A node that took it before is told so again.
	FormJoin
	// FormPropose is to draw a cluster id, and to keep and announce a Formation of it with Founders.
	FormPropose
	// FormAccept is to keep Formation, take its cluster, and announce both.
	FormAccept
	// FormGo is to keep and announce Formation, which has Go set now.
	FormGo
	// FormFound is to create this node's replica of the system shard, one voter among those of the founders.
	FormFound
)

// FormationStep is what Form says.
type FormationStep struct {
	Action    FormationAction
	Why       string     // for the log
	Cluster   string     // of FormJoin
	Founders  []string   // of FormPropose
	Formation *Formation // of FormAccept, FormGo and FormFound
}

// Form says what a node does next to get into a cluster, from what it kept and whom it sees. The caller asks again
// after every step and whenever members change, until it carried out FormJoin or FormFound.
//
// What keeps two clusters apart is that a node takes one cluster id, ever, and keeps it on disk before it says so: the
// creator says go when all founders have taken its id, and none of them can take another's after that. So whatever a
// node sees may be late or missing; wrong moves are waits, and some of them need an operator. To resume after a crash
// at any point, the caller keeps, before it announces: on FormPropose the Formation it made, on FormAccept, FormGo and
// FormFound the one of the step. When its replica of the system shard is created, it keeps the cluster and forgets the
// Formation: who keeps none only joins.
//
// Members that left or are suspect count for nothing, with two exceptions: that a cluster's founders were told to go
// stays true, and whoever has seen a cluster, even one that is gone, founds no other. (SEMANTICS R12b.)
func Form(self FormationSelf, members []Member) FormationStep {
	v := newFormationView(&self, members)
	switch f := self.Formation; {
	case f != nil && (len(f.Founders) == 0 || self.Cluster != "" && self.Cluster != f.Cluster):
		return wait("this node kept cluster %q and a formation of cluster %q by %v: its data dir is damaged", self.Cluster,
			f.Cluster, f.Founders)
	case f != nil:
		return v.pursue(f)
	case self.Cluster != "":
		return FormationStep{Action: FormJoin, Cluster: self.Cluster, Why: fmt.Sprintf("this node belongs to cluster %q",
			self.Cluster)}
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
