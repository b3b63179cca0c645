package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// TestNothingSpentInRealTimeExceedsALimit plays holders that spend their leases in real time, return them, lose answers
// and die, beside checks that take all that is left, resets, overrides, revisions and a key that is forgotten. The
// shard's clock runs fast and jumps as at a failover, the holders' clocks run slow. A judge that knows neither states
// nor leases places each unit at the shard time of the real instant at which it was spent.
func TestNothingSpentInRealTimeExceedsALimit(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	met := map[string]int{}
	for n := range 400 * times() {
		g := newLeaseGame(t, rnd)
		for range 150 {
			if problem := g.play(); problem != "" {
				t.Fatalf("%s\ngame %d of %+v:\n%s", problem, n, g.sets[0][0].Limits, g.story)
			}
		}
		for what, n := range g.met {
			met[what] += n
		}
	}
	t.Logf("met %v", met)
	for _, what := range []string{"granted", "nothing granted", "spent", "returned", "died", "unknown", "admitted",
		"near full", "reset", "override", "revision", "forget", "jump"} {
		if met[what] == 0 {
			t.Errorf("no game met this: %s", what)
		}
	}
}

type leaseGame struct {
	*owner
	rnd      *rand.Rand
	sets     [2][]*policy.Policy // of revisions
	real     limit.Time          // since origin
	ahead    limit.Span          // of shard time, besides its drift
	shown    limit.Time          // shard time
	holders  []*leaseHolder
	ends     []limit.Time // of leases, in shard time
	number   uint64
	judges   []*realJudge // of each limit
	met      map[string]int
	story    string
	revision int
}

// leaseHolder is one lease of a holder.
type leaseHolder struct {
	number  uint64
	spends  []limit.Time // real instants of the units to come
	spent   uint64
	silent  bool       // died, or does not know of its lease
	returns limit.Time // in real time; 0: it has not decided to
}

func newLeaseGame(t *testing.T, rnd *rand.Rand) *leaseGame {
	g := &leaseGame{rnd: rnd, met: map[string]int{}}
	for i := range g.sets {
		p := onePolicy(g.limit())
		if rnd.IntN(3) == 0 {
			p = onePolicy(g.limit(), g.limit())
		}
		if i == 1 && rnd.IntN(2) == 0 { // the same limits with another quota
			p = onePolicy(g.sets[0][0].Limits[0].Limit)
			p.Limits[0].Quota += 10
			p.Limits[0].Initial += min(p.Limits[0].Initial, 10)
		}
		p.Lease = &policy.Lease{Units: uint64(1 + rnd.IntN(40)), For: second * limit.Span(1+rnd.IntN(2)),
			Share: policy.Percent(1 + rnd.IntN(100))}
		p.OnChange = policy.OnChange(rnd.IntN(4))
		g.sets[i] = []*policy.Policy{p}
	}
	g.owner = &owner{world: newWorld(t, g.sets[0]...), overlay: map[string]Record{}}
	g.adopt(origin, g.policies)
	g.shown = origin + 1
	g.startJudges()
	return g
}

func (g *leaseGame) limit() limit.Limit {
	l := limit.Limit{Quota: uint64(1 + g.rnd.IntN(60)), Period: second * limit.Span(20+g.rnd.IntN(20))}
	l.Algorithm = []limit.Algorithm{limit.FixedWindow, limit.FixedWindowFirstHit, limit.SlidingWindow,
		limit.SlidingBuckets, limit.SlidingLog, limit.TokenBucket, limit.GCRA, limit.Calendar}[g.rnd.IntN(8)]
	switch l.Algorithm {
	case limit.SlidingBuckets:
		l.Bucket = l.Period / 20
	case limit.TokenBucket, limit.GCRA:
		l.Period, l.Count = second, uint64(1+g.rnd.IntN(20))
		if l.Algorithm == limit.TokenBucket {
			l.Initial = l.Quota - uint64(g.rnd.IntN(2)*g.rnd.IntN(int(l.Quota)))
		}
	case limit.Calendar:
		l.Period, l.Cycle = 0, &limit.Cycle{Unit: limit.Minute, Every: 1, Zone: zones[0]}
	}
	return l
}

func (g *leaseGame) tellf(format string, args ...any) {
	g.story += fmt.Sprintf("%9d %9d: "+format+"\n", append([]any{g.real, g.shown - origin}, args...)...)
}

// moveTo moves real time on. The clock of the shard runs 500 ppm fast.
func (g *leaseGame) moveTo(real limit.Time) {
	g.real = real
	g.shown = max(g.shown, origin+1+real+real/2000+limit.Time(g.ahead))
}

func (g *leaseGame) play() (problem string) {
	spans := []limit.Span{1, 100 * millisecond, 500 * millisecond, 8 * second}
	to := g.real + limit.Time(g.rnd.Int64N(int64(spans[g.rnd.IntN(4)])))
	if g.rnd.IntN(3) == 0 {
		to = g.edge()
	}
	for h := g.nextSpend(to); h != nil; h = g.nextSpend(to) {
		g.moveTo(h.spends[0])
		h.spends = h.spends[1:]
		h.spent++
		g.met["spent"]++
		for _, j := range g.judges {
			if problem = j.spend(g.shown, 1, j.most); problem != "" {
				return fmt.Sprintf("at %d (%d) a lease's unit: %s", g.real, g.shown-origin, problem)
			}
		}
	}
	g.moveTo(to)
	for _, h := range g.holders {
		if h.returns != 0 && h.returns <= g.real {
			h.returns, h.silent = 0, true
			g.met["returned"]++
			g.tellf("returns %d, %d spent", h.number, h.spent)
			g.send(leaseOf("k", LeaseTerms{Holder: "h", Returned: h.number, Spent: h.spent}))
		}
	}
	return g.act()
}

// edge returns the real instant at which a window begins, a lease ends, or what it has spent stops to count.
func (g *leaseGame) edge() limit.Time {
	period := periodOf(&g.policy().Limits[0].Limit)
	at := g.shown - g.shown%period + period
	if len(g.ends) > 0 && g.rnd.IntN(2) == 0 {
		at = g.ends[max(0, len(g.ends)-1-g.rnd.IntN(6))] + period*limit.Time(g.rnd.IntN(2))
	}
	return max(g.real, (at-origin-limit.Time(g.ahead))*2000/2001+limit.Time(g.rnd.IntN(5)-2))
}

func periodOf(l *limit.Limit) limit.Time {
	if l.Algorithm == limit.Calendar {
		return limit.Time(minute)
	}
	return limit.Time(l.Period)
}

// nextSpend returns the holder that spends next, until an instant.
func (g *leaseGame) nextSpend(to limit.Time) (next *leaseHolder) {
	for _, h := range g.holders {
		if len(h.spends) > 0 && h.spends[0] <= to && (next == nil || h.spends[0] < next.spends[0]) {
			next = h
		}
	}
	return next
}

func (g *leaseGame) policy() *policy.Policy { return g.sets[g.revision][0] }

func (g *leaseGame) send(r Request) Decision {
	d := g.decide(g.shown, []Request{r})[0]
	for len(g.pending) > g.rnd.IntN(2) {
		g.installOldest()
	}
	if d.Err != nil {
		g.Fatalf("%+v: %v\n%s", r, d.Err, g.story)
	}
	return d.Decision
}

func (g *leaseGame) act() string {
	one := checkOf("p", "k", uint64(1+g.rnd.IntN(30)))
	switch n := g.rnd.IntN(100); {
	case n < 30:
		g.ask()
	case n < 45 && len(g.holders) > 0:
		h := g.holders[g.rnd.IntN(len(g.holders))]
		switch {
		case h.silent || h.returns != 0:
		case n < 33: // it dies
			h.spends, h.silent = nil, true
			g.met["died"]++
		default:
			h.spends, h.returns = nil, g.real+1+limit.Time(g.rnd.Int64N(int64(100*millisecond)))
		}
	case n < 85:
		one.Op = []Op{Check, Partial, Partial}[g.rnd.IntN(3)]
		one.Entries[0].Cost += uint64(40 * g.rnd.IntN(2) * int(one.Op) / int(Partial))
		return g.admit(one)
	case n < 87:
		g.met["reset"]++
		g.tellf("reset")
		one.Op = Reset
		g.send(one)
		g.startJudges()
	case n < 89:
		quota := uint64(1 + g.rnd.IntN(60))
		g.met["override"]++
		g.tellf("override %d", quota)
		one.Op, one.Adjustment = PutOverride,
			&Adjustment{Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}
		if g.rnd.IntN(2) == 0 {
			one.Adjustment.Override.Expires = g.shown + 1 + limit.Time(g.rnd.Int64N(int64(3*second)))
		}
		if l := g.policy().Limits[0]; l.Initial != l.Quota && l.Algorithm == limit.TokenBucket ||
			g.policy().OnChange == policy.Proportional {
			return "" // a bucket cannot have less room than it begins with; and the judge does not scale
		}
		g.send(one)
		g.judges[0].most = max(g.judges[0].most, quota)
	case n < 91:
		g.met["forget"]++
		g.tellf("forget")
		g.send(forgetOf("k"))
		g.startJudges()
	case n < 93:
		g.revise()
	case n < 97:
		g.jump([]limit.Span{0, 0, limit.Span(g.rnd.Int64N(int64(400 * millisecond)))}[g.rnd.IntN(3)])
	}
	return ""
}

// jump is a failover to an owner with a clock so far ahead. Shard time never goes backwards.
func (g *leaseGame) jump(ahead limit.Span) {
	g.met["jump"]++
	g.ahead = ahead
	g.tellf("the shard's clock is %d ahead", ahead)
}

// ask asks for a lease. The holder times it from before it sent the request, by a clock that is 500 ppm slow.
func (g *leaseGame) ask() {
	g.number++
	h := &leaseHolder{number: g.number}
	sent := max(0, g.real-limit.Time(g.rnd.Int64N(int64(20*millisecond))))
	d := g.send(leaseOf("k", LeaseTerms{Holder: "h", Number: h.number, Units: uint64(1 + g.rnd.IntN(60))}))
	got := *d.System.Lease
	if got.Units == 0 {
		g.met["nothing granted"]++
		return
	}
	length := limit.Span(got.Ends - d.DecidedAt)
	by := sent + limit.Time(length-LeaseMargin(length))*2001/2000
	g.tellf("lease %d of %d until %d, spent by %d", h.number, got.Units, got.Ends-origin, by)
	g.met["granted"]++
	g.holders, g.ends = append(g.holders, h), append(g.ends, got.Ends)
	if h.silent = g.rnd.IntN(10) == 0; h.silent || by <= g.real { // the answer is lost, or late
		g.met["unknown"]++
		return
	}
	if g.ahead == 0 && g.rnd.IntN(2) == 0 {
		g.jump(400 * millisecond)
	}
	for range got.Units {
		at := g.real + limit.Time(g.rnd.Int64N(int64(by-g.real)))
		if g.number%2 == 0 {
			at = by - 1
		}
		h.spends = append(h.spends, at)
	}
	slices.Sort(h.spends)
}

// admit sends a check, and has its units judged.
func (g *leaseGame) admit(r Request) string {
	d := g.send(r)
	if !d.Allowed {
		return ""
	}
	g.met["admitted"]++
	for i := range d.Limits {
		s, j := &d.Limits[i], g.judges[i]
		units := r.Entries[0].Cost
		if r.Op == Partial {
			units = s.Granted
		}
		g.tellf("%d units admitted: %+v", units, s.Verdict)
		if s.Remaining == 0 {
			g.met["near full"]++
		}
		j.starts, j.most = s.WindowStart, max(j.most, s.Quota)
		if problem := j.spend(g.shown, units, s.Quota); problem != "" {
			return fmt.Sprintf("at %d (%d) %d units: %s", g.real, g.shown-origin, units, problem)
		}
	}
	return ""
}

func (g *leaseGame) revise() {
	g.met["revision"]++
	g.revision = 1 - g.revision
	g.shown++
	g.tellf("revision %d: %+v", g.revision, g.policy().Limits)
	g.adopt(g.shown, policy.NewSet(g.sets[g.revision]))
	g.shown++
	g.startJudges()
}

// startJudges forgets what was spent. What leases spend from now on still has to fit.
func (g *leaseGame) startJudges() {
	most := uint64(0)
	for _, set := range g.sets {
		for _, l := range set[0].Limits {
			most = max(most, l.Quota)
		}
	}
	for _, j := range g.judges {
		most = max(most, j.most)
	}
	g.judges = nil
	for _, l := range g.policy().Limits {
		g.judges = append(g.judges, &realJudge{l: l.Limit, most: most})
	}
}

// realJudge adds up what was spent of one limit since it began to judge, at the instants at which that was.
type realJudge struct {
	l       limit.Limit
	most    uint64     // the largest quota that a lease may be of
	starts  limit.Time // of the window of the newest check
	at      limit.Time
	missing uint64 // of a bucket, in parts: one unit is Period
	all     []limit.Point
}

// spend adds units, and tells if they are too many under a quota.
func (j *realJudge) spend(at limit.Time, units, quota uint64) string {
	j.all = append(j.all, limit.Point{At: at, Units: units})
	used, most := uint64(0), quota
	switch period := periodOf(&j.l); j.l.Algorithm {
	case limit.TokenBucket, limit.GCRA:
		back := uint64(at-j.at) * j.l.Count
		j.missing -= min(j.missing, back)
		j.missing += units * uint64(period)
		j.at, used, most = at, j.missing, quota*uint64(period)
	case limit.FixedWindow, limit.Calendar:
		used = j.since(at - at%period)
	case limit.FixedWindowFirstHit:
		if at < j.starts+period { // else none is open that the judge knows of
			used = j.since(j.starts)
		}
	case limit.SlidingBuckets:
		bucket := limit.Time(j.l.Bucket)
		used = j.since(at - at%bucket - period + bucket)
	case limit.SlidingLog:
		used = j.since(at - period + 1)
	case limit.SlidingWindow:
		begins := at - at%period
		this := j.since(begins)
		before := j.since(begins-period) - this
		used, most = this*uint64(period)+before*uint64(begins+period-at), quota*uint64(period)
	}
	if used > most {
		return fmt.Sprintf("%d of %d were spent of %+v", used, most, j.l)
	}
	return ""
}

func (j *realJudge) since(at limit.Time) (units uint64) {
	for _, p := range j.all {
		if p.At >= at {
			units += p.Units
		}
	}
	return units
}
