package verify

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Spend is one check of a key that holders may lease (X17).
type Spend struct {
	Called, Returned time.Duration // on one clock
	Cost             uint64
	Decided          bool // it has an answer
	Allowed, Leased  bool
	At               int64 // shard time of the owner's decision, or of the lease's grant, in microseconds

	least, most int64 // the shard's time between call and return; for an answer of the owner its own
}

// LeasedLimit is the limit of a policy with a lease: a window of shard time, or with Slides a log of that length.
type LeasedLimit struct {
	Quota  uint64
	Period time.Duration
	Slides bool
}

// Judge returns an error for each admission that is one too many in its window. An admission from a lease is placed
// between its call and its return, by what the owner answered before and after it. Where the owner's time has jumped
// further ahead than at a failover (G4), leases promise nothing: the judge begins anew, and counts such jumps.
func (l LeasedLimit) Judge(all []*Spend) (wrong []error, jumps int) {
	all = slices.DeleteFunc(slices.Clone(all), func(s *Spend) bool { return !s.Decided })
	slices.SortFunc(all, func(a, b *Spend) int { return cmp.Compare(a.Called, b.Called) })
	var told []*Spend // by the owner
	for _, s := range all {
		if !s.Leased {
			s.least, s.most = s.At, s.At
			told = append(told, s)
		}
	}
	begins := 0
	var quick *Spend
	for i, s := range all {
		if s.Leased || s.Returned-s.Called > quickAnswer {
			continue
		}
		if quick != nil && time.Duration(s.At-quick.At)*time.Microsecond > s.Called-quick.Called+jumpLeast {
			wrong = append(wrong, l.judge(all[begins:i], told)...)
			begins, jumps = i, jumps+1
		}
		quick = s
	}
	return append(wrong, l.judge(all[begins:], told)...), jumps
}

// A jump of the owner's time is seen in answers that took no longer than quickAnswer.
const quickAnswer, jumpLeast = 60 * time.Millisecond, 410 * time.Millisecond

func (l LeasedLimit) judge(all, told []*Spend) (wrong []error) {
	var admitted []*Spend
	for _, s := range all {
		if s.Allowed {
			if s.Leased {
				s.place(told)
			}
			admitted = append(admitted, s)
		}
	}
	period := l.Period.Microseconds()
	for _, last := range admitted {
		begins, ends := last.least-last.least%period, last.least-last.least%period+period-1
		if l.Slides {
			begins, ends = last.most-period+1, last.most
		}
		used := uint64(0)
		for _, s := range admitted {
			if s.least >= begins && s.most <= ends {
				used += s.Cost
			}
		}
		if used > l.Quota {
			wrong = append(wrong, finding(overAdmitted, "%d of %d units within %v of shard time, until %d (%v after the start)", used,
				l.Quota, l.Period, ends, last.Called))
		}
	}
	return wrong
}

// place sets between which times of the shard a leased answer was given.
func (s *Spend) place(told []*Spend) {
	s.least, s.most = 0, 1<<62
	for _, o := range told {
		if o.Returned < s.Called {
			s.least = max(s.least, o.least)
		}
		if o.Called > s.Returned {
			s.most = min(s.most, o.most)
		}
	}
}

// String describes it for the history of a key.
func (s *Spend) String() string {
	return fmt.Sprintf("%9.3f-%9.3f cost %d, leased %v, allowed %v, time %d to %d", s.Called.Seconds(), s.Returned.Seconds(), s.Cost,
		s.Leased, s.Allowed, s.least, s.most)
}
