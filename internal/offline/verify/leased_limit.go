package verify

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// LeasedLimit is the limit of a policy with a lease: a window of shard time, or with Slides a log of that length.
type LeasedLimit struct {
	Quota  uint64
	Period time.Duration // 0: nothing comes back during a run
	Slides bool
}

// Judge returns an error for each admission that is one too many in its window. An admission from a lease is placed
// between its call and its return, by what the owner answered before and after it. Where the owner's time has jumped
// further ahead than at a failover (G4), leases promise nothing: the judge begins anew, and counts such jumps. It
// writes into the Spends.
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

// judge judges a stretch without jumps. told has the answers of the owner of the whole run, which bound those of
// leases.
func (l LeasedLimit) judge(all, told []*Spend) (wrong []error) {
	placed := newOwnerAnswers(told)
	var admitted []*Spend
	sum := uint64(0)
	for _, s := range all {
		if s.Allowed {
			if s.Leased {
				s.least, s.most = placed.of(s)
			}
			admitted = append(admitted, s)
			sum += s.Cost
		}
	}
	if l.Period == 0 {
		if sum > l.Quota {
			wrong = append(wrong, finding(overAdmitted, "%d of %d units, which do not come back", sum, l.Quota))
		}
		return wrong
	}
	slices.SortFunc(admitted, func(a, b *Spend) int { return cmp.Compare(a.least, b.least) })
	period := l.Period.Microseconds()
	for _, last := range admitted {
		begins, ends := last.least-last.least%period, last.least-last.least%period+period-1
		if l.Slides {
			begins, ends = last.most-period+1, last.most
		}
		used := uint64(0)
		first := sort.Search(len(admitted), func(i int) bool { return admitted[i].least >= begins })
		for _, s := range admitted[first:] {
			if s.least > ends {
				break
			}
			if s.most <= ends {
				used += s.Cost
			}
		}
		if used > l.Quota {
			wrong = append(wrong,
				finding(overAdmitted, "%d of %d units within %v of shard time, until %d (%v after the start)", used,
					l.Quota, l.Period, ends, last.Called))
		}
	}
	return wrong
}

// ownerAnswers are the answers of an owner, between which those of holders lie.
type ownerAnswers struct {
	returned, called []*Spend // in the order of their returns, and of their calls
	// least[i] is the latest time among returned[:i], most[i] the earliest among called[i:]: what came before an
	// answer, and what began after it, bound its time.
	least, most []int64
}

func newOwnerAnswers(told []*Spend) *ownerAnswers {
	p := &ownerAnswers{returned: slices.Clone(told), called: slices.Clone(told)}
	p.least, p.most = make([]int64, len(told)+1), make([]int64, len(told)+1)
	slices.SortFunc(p.returned, func(a, b *Spend) int { return cmp.Compare(a.Returned, b.Returned) })
	slices.SortFunc(p.called, func(a, b *Spend) int { return cmp.Compare(a.Called, b.Called) })
	p.most[len(told)] = 1 << 62
	for i := range told {
		p.least[i+1] = max(p.least[i], p.returned[i].At)
		back := len(told) - 1 - i
		p.most[back] = min(p.most[back+1], p.called[back].At)
	}
	return p
}

// of returns between which times of the shard a leased answer was given.
func (p *ownerAnswers) of(s *Spend) (least, most int64) {
	before := sort.Search(len(p.returned), func(i int) bool { return p.returned[i].Returned >= s.Called })
	after := sort.Search(len(p.called), func(i int) bool { return p.called[i].Called > s.Returned })
	return p.least[before], p.most[after]
}
