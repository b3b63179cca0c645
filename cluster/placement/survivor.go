package placement

import (
	"cmp"
	"slices"

	"github.com/stint-io/stint/shard"
)

// Survivor is a replica, and what it knows about the one that leads its group. Replicas compare these to find out
// whether the leader's process has died, and which of them succeeds it (Succeeds, R10b).
type Survivor struct {
	Shard     shard.ID
	Name      string // node/shard/number
	Dead      bool   `json:",omitempty"` // by all evidence on its node, the leader's process has died
	Leader    string `json:",omitempty"` // name of the leader's replica; "": it knows none
	Term      uint64 // in which Leader leads
	LastTerm  uint64 // of the newest entry in its log
	LastIndex uint64 // of the newest entry in its log
}

// Succeeds reports whether a survivor should stand for election at once, by what the other voters have said. A
// majority of the voters, itself included, must have evidence that the same leader, in the same term, has died: a
// guess that is wrong deposes an owner that lives. And of those that answered its log must be the newest; of several
// such logs, that of the replica with the lowest number counts, and of several with that number, that of the first
// node. So one stands, and the others can vote for it.
func Succeeds(self *Survivor, voters []string, others []Survivor) bool {
	if !self.Dead || self.Leader == "" || !slices.Contains(voters, self.Name) { //mutant:succeeds-without-evidence
		return false
	}
	agree := map[string]bool{self.Name: true}
	for i := range others {
		other := &others[i]
		if other.Shard != self.Shard || !slices.Contains(voters, other.Name) { //mutant:learner-attests
			continue
		}
		if other.isBefore(self) { //mutant:older-log-succeeds
			return false
		}
		//mutant:attests-without-evidence //mutant:attests-to-another-leader //mutant:attests-to-another-term
		if other.Dead && other.Leader == self.Leader && other.Term == self.Term {
			agree[other.Name] = true
		}
	}
	return len(agree) > len(voters)/2 //mutant:minority-succeeds
}

// isBefore reports whether a survivor is to stand for election rather than another one. It orders any two of one group.
func (s *Survivor) isBefore(other *Survivor) bool {
	own, _, _ := ParseName(s.Name)
	others, _, _ := ParseName(other.Name)
	newer := cmp.Or(cmp.Compare(s.LastTerm, other.LastTerm), cmp.Compare(s.LastIndex, other.LastIndex))
	//mutant:equals-succeed-together
	return cmp.Or(newer, cmp.Compare(others.Number, own.Number), cmp.Compare(others.Node, own.Node)) > 0
}
