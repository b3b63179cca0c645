package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// Shard is what is left of a shard.
type Shard struct {
	ID       shard.ID
	Name     string
	Replicas []Replica
	Chosen   string // name of the replica that goes into the backup; "": none is left
	Exact    bool   // it has everything that the shard ever answered
	Lost     string `json:",omitempty"` // why it is not exact
}

// Replica is what is left of a replica. Term and Index are those of its newest entry, Epoch and Seq the place of its
// newest decision. Epoch to Adopted are 0 if it is unreadable.
type Replica struct {
	raftfsm.Survivor
	Node    string
	Epoch   uint64
	Seq     uint64
	Time    limit.Time
	Records int
	Sum     uint64        // of its records, after all of its log
	Sums    []shard.SumAt // its newest sums, to be compared with those of others
	Adopted uint64        // revision of the policies; 0: none

	// where it is read, which judge sets: places in Recovery.remnants, and in the Replicas of that one
	remnant, place int
}

// choose picks the replica that goes into the backup, and says whether it has everything that the shard ever answered.
//
// An entry was acknowledged when a majority of the voters had it. In a majority of replicas that forgot nothing, one
// has it; and the one with the newest last entry then has it too, as Raft's elections rely on. Entries after it may be
// unacknowledged; they are taken too, as the group itself might have done. Configurations change by one voter at a
// time, and only once the one before is committed; the newest in a log may not be. So a majority of the newest and of
// the one before is needed: any majority that has committed something has one of these replicas. The table counts as
// well, because it knows whether a directory was left behind long ago.
func (s *Shard) choose(table *placement.Table) {
	s.doubt(table)
	s.Chosen, s.Exact, s.Lost = "", false, ""
	sound, forgetful := s.newest(isSound), s.newest(isUsable)
	switch {
	case sound != nil:
		s.Chosen, s.Lost = sound.Name, s.missing(sound, table)
		s.Exact = s.Lost == ""
	case forgetful != nil: // all its bytes are whole, as those of an older backup are; the fill covers what it forgot
		s.Chosen = forgetful.Name
		s.Lost = "no replica is left that forgot nothing: " + forgetful.Forgetful
	default:
		s.Lost = "no replica is left"
	}
}

//mutant:convicted-replica-chosen
func isUsable(r *Replica) bool { return r.Unreadable == "" && r.Convicted == "" }
func isSound(r *Replica) bool  { return isUsable(r) && r.Forgetful == "" } //mutant:forgetful-replica-counts

// chosen returns the replica that was chosen; nil: none.
func (s *Shard) chosen() *Replica {
	if i := slices.IndexFunc(s.Replicas, func(r Replica) bool { return r.Name == s.Chosen }); i >= 0 {
		return &s.Replicas[i]
	}
	return nil
}

// newest returns the replica with the newest last entry among those that may be taken; nil: there is none.
func (s *Shard) newest(may func(*Replica) bool) (newest *Replica) {
	for i := range s.Replicas {
		r := &s.Replicas[i]
		//mutant:shorter-log-chosen 2
		if may(r) &&
			(newest == nil || cmp.Or(cmp.Compare(r.Term, newest.Term), cmp.Compare(r.Index, newest.Index)) > 0) {
			newest = r
		}
	}
	return newest
}

// doubt notes which replicas others contradict: the table, or the sums of a majority.
func (s *Shard) doubt(table *placement.Table) {
	if newest := s.newest(isUsable); newest != nil {
		said := make(map[string]placement.Testimony)
		for i := range s.Replicas {
			if r := &s.Replicas[i]; isUsable(r) {
				said[r.Name] = placement.Testimony{Epoch: r.Epoch, Seq: r.Seq, Sums: r.Sums}
			}
		}
		voters := newest.Newest.Names
		for i := range s.Replicas {
			r := &s.Replicas[i]
			switch verdict, at := placement.Judge(r.Name, voters, said); {
			case verdict == placement.Convicted: //mutant:outvoted-sum-counts
				r.Convicted = fmt.Sprintf("at epoch %d, seq %d its records have the sum %016x, "+
					"and those of a majority another", at.Epoch, at.Seq, at.Sum)
			case verdict == placement.Disputed && r.Forgetful == "":
				r.Forgetful = fmt.Sprintf("at epoch %d, seq %d its records have the sum %016x, others have another, "+
					"and there is no majority", at.Epoch, at.Seq, at.Sum)
			}
		}
	}
	for i := range s.Replicas {
		r := &s.Replicas[i]
		//mutant:lost-replica-counts
		if listed := table.Replica(s.ID, r.Node, r.Number); listed != nil && listed.Lost && r.Forgetful == "" {
			r.Forgetful = "the table says that it is lost"
		}
	}
}

// missing says which majority is not there; "": none.
func (s *Shard) missing(chosen *Replica, table *placement.Table) string {
	listed := raftfsm.Voters{}
	if g := table.Group(s.ID); g != nil {
		for _, voter := range g.Voters() {
			listed.Names = append(listed.Names, voter.Name(s.ID))
		}
	}
	for _, one := range []struct {
		what   string
		voters raftfsm.Voters
		//mutant:newest-minority-exact 2 //mutant:previous-minority-exact 2 //mutant:table-minority-exact 2
	}{{"the newest configuration", chosen.Newest}, {"the configuration before", chosen.Previous},
		{"the table", listed}} {
		var absent []string
		for _, name := range one.voters.Names {
			if !slices.ContainsFunc(s.Replicas, func(r Replica) bool { return r.Name == name && isSound(&r) }) {
				absent = append(absent, name)
			}
		}
		if n := len(one.voters.Names); n > 0 && 2*len(absent) >= n { //mutant:half-is-a-majority
			return fmt.Sprintf("of %d voters of %s, %d are missing or suspect: %s", n, one.what, len(absent),
				strings.Join(absent, ", "))
		}
	}
	if len(chosen.Newest.Names) == 0 {
		return "its log names no voters"
	}
	return ""
}
