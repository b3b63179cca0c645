package verify

import (
	"testing"
	"time"
)

const seconds = int64(1_000_000)

// owner is an answer of the owner that took no time.
func owner(at time.Duration, cost uint64, allowed bool) *Spend {
	return &Spend{Called: at, Returned: at, Cost: cost, Decided: true, Allowed: allowed,
		At: 100*seconds + at.Microseconds()}
}

func leased(called, returned time.Duration, cost uint64) *Spend {
	return &Spend{Called: called, Returned: returned, Cost: cost, Decided: true, Allowed: true, Leased: true}
}

// An admission from a lease counts where it certainly was.
func TestLeasedAdmissionsAreJudgedBetweenCallAndReturn(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	log, window, lasting := LeasedLimit{10, 10 * s, true}, LeasedLimit{10, 10 * s, false}, LeasedLimit{Quota: 10}
	for what, c := range map[string]struct {
		limit LeasedLimit
		all   []*Spend
		wrong bool
	}{
		"within":       {log, []*Spend{owner(1*s, 5, true), leased(2*s, 2*s, 5), owner(3*s, 1, false)}, false},
		"one too many": {log, []*Spend{owner(1*s, 5, true), leased(2*s, 2*s, 6), owner(3*s, 1, false)}, true},
		"unanswered": {log, []*Spend{owner(1*s, 5, true), {Called: 2 * s, Cost: 6, Allowed: true},
			owner(3*s, 1, false)}, false},
		"denied":        {log, []*Spend{owner(1*s, 5, true), leased(2*s, 2*s, 5), owner(3*s, 6, false)}, false},
		"perhaps later": {log, []*Spend{owner(1*s, 5, true), leased(2*s, 12*s, 6), owner(13*s, 1, false)}, false},
		"after the log": {log, []*Spend{owner(1*s, 5, true), owner(11*s, 1, false), leased(12*s, 12*s, 6),
			owner(13*s, 1, false)}, false},
		"the next window": {window, []*Spend{owner(8*s, 1, false), leased(9*s, 9*s, 10), owner(10*s, 1, false),
			leased(11*s, 11*s, 10), owner(12*s, 1, false)}, false},
		"late for its window": {window, []*Spend{owner(10*s, 5, true), leased(10*s+ms, 11*s, 6),
			owner(12*s, 1, false)}, true},
		"the same in a log": {log, []*Spend{owner(8*s, 1, false), leased(9*s, 9*s, 10), owner(10*s, 1, false),
			leased(11*s, 11*s, 10), owner(12*s, 1, false)}, true},
		"answers of the owner": {window, []*Spend{owner(1*s, 5, true), owner(2*s, 6, true)}, true},
		"all that there is": {lasting, []*Spend{leased(1*s, 2*s, 5), owner(30*s, 5, true), owner(31*s, 1, false)},
			false},
		"more than there is": {lasting, []*Spend{leased(1*s, 2*s, 5), owner(30*s, 6, true)}, true},
	} {
		if wrong, _ := c.limit.Judge(c.all); (len(wrong) > 0) != c.wrong {
			t.Errorf("%s: %v", what, wrong)
		}
	}
	jump := owner(3*s, 5, true)
	jump.At += 2 * seconds
	if wrong, jumps := log.Judge([]*Spend{owner(1*s, 10, true), jump}); len(wrong) > 0 || jumps != 1 {
		t.Errorf("after %d jumps of the owner's time: %v", jumps, wrong)
	}
}

// What leases have admitted too much is a finding, and what holders answered is counted.
func TestALeaseThatAdmitsTooMuchIsFound(t *testing.T) {
	const s = time.Second
	for cost, found := range map[uint64]int{5: 0, 6: 1} {
		r := &run{plan: Plan{Targets: []Target{{}}}, shards: newShards(0, nil)}
		r.lessees = []*lessees{{run: r, of: Lease{"p", LeasedLimit{10, 10 * s, true}},
			keys: [][]*Spend{{owner(1*s, 5, true), leased(2*s, 2*s, cost), owner(3*s, 1, false)}}}}
		r.lessees[0].settle(t.Context())
		if out := r.result(s); out.Findings[string(overAdmitted)] != found || out.Leased != 1 {
			t.Errorf("of cost %d: %+v", cost, out)
		}
	}
}
