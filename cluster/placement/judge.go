package placement

import (
	"slices"

	"github.com/stint-io/stint/shard"
)

// Testimony is a replica's report about its sums.
type Testimony struct {
	Epoch, Seq uint64        // its current position
	Sums       []shard.SumAt // its newest sums, in the order of their positions
}

// Verdict is the result of comparing a replica's sums with those of the voters of its group.
type Verdict uint8

// The verdicts.
const (
	// Unjudged: too few voters have reported a sum at the positions of this replica's sums.
	Unjudged Verdict = iota
	// Agreed: a majority of the voters has this replica's sum.
	Agreed
	// Convicted: a majority of the voters shares one sum, and it is not this replica's.
	Convicted
	// Disputed: sums differ, and there is no majority of equal sums among the voters that can report.
	Disputed
)

// Judge compares the sums of one replica, self, with the reported sums of the group's voters. Each replica judges only
// itself. It is convicted if it was outvoted at any position that it still remembers; otherwise the newest position
// with a result counts. A sum of another version does not count. A missing sum does not count either: it may still
// come, as long as its voter has not reached that position.
func Judge(self string, voters []string, said map[string]Testimony) (Verdict, shard.SumAt) {
	newest, at := Unjudged, shard.SumAt{}
	mine := said[self].Sums
	for i := len(mine) - 1; i >= 0; i-- {
		switch verdict := judgeAt(mine[i], voters, said); {
		case verdict == Convicted:
			return Convicted, mine[i]
		case newest == Unjudged && verdict != Unjudged:
			newest, at = verdict, mine[i]
		}
	}
	return newest, at
}

// judgeAt compares one sum. A voter without a testimony is not awaited, but counts for the majority.
func judgeAt(mine shard.SumAt, voters []string, said map[string]Testimony) Verdict {
	votes, awaited := make(map[uint64]int), false
	for _, voter := range voters {
		testimony, can := said[voter]
		if !can {
			continue
		}
		if sum, found := testimony.at(mine); found {
			votes[sum]++
		} else if testimony.isBefore(mine) {
			awaited = true //mutant:late-sum-not-awaited
		}
	}
	for sum, count := range votes {
		if count <= len(voters)/2 { //mutant:any-other-sum-convicts
			continue
		}
		if sum == mine.Sum {
			return Agreed
		}
		return Convicted
	}
	if _, mineVotes := votes[mine.Sum]; mineVotes && len(votes) > 1 && !awaited {
		return Disputed
	}
	return Unjudged
}

// at returns the replica's sum at the position of another replica's sum.
func (t *Testimony) at(other shard.SumAt) (sum uint64, found bool) {
	i := slices.IndexFunc(t.Sums, func(s shard.SumAt) bool {
		//mutant:sums-of-two-versions-compared
		return s.Version == other.Version && s.Epoch == other.Epoch && s.Seq == other.Seq
	})
	if i < 0 {
		return 0, false
	}
	return t.Sums[i].Sum, true
}

// isBefore reports whether the replica has not reached that position yet.
func (t *Testimony) isBefore(at shard.SumAt) bool {
	return t.Epoch < at.Epoch || t.Epoch == at.Epoch && t.Seq < at.Seq
}
