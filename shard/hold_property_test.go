package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// TestWhatIsUsedIsWhatIsOpenOrSpent plays random reservations, settlements, refunds, resets and expiries, and compares
// every answer with a plain list of what was taken. The used units are the sum of the open or spent ones in the window,
// and the held units the sum of the open ones. A hold or decision ends once, and only a debt exceeds a quota.
func TestWhatIsUsedIsWhatIsOpenOrSpent(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	operations := 4000 * times()
	for n := 0; n < operations; n += 400 {
		g := newHoldGame(t, rnd)
		for range 400 {
			g.play()
			if t.Failed() {
				return
			}
		}
		audit(t, g.state)
	}
}

// ledgerLimit is a limit in the model of the ledger.
type ledgerLimit struct {
	policy, name string
	quota        uint64
	shape        string // fixed, log, ever, running
	period       limit.Span
}

// lot is units that were taken together from one key of one policy.
type lot struct {
	policy, key string
	taken       limit.Time
	units       uint64
	open        bool            // held
	void        map[string]bool // limits that were put to rest since, or that never counted it
}

// deal is a hold or a decision that may be settled.
type deal struct {
	request Request // Settle, with the target
	lots    []*lot
	expires limit.Time // of a hold
	commit  bool       // on expiry
	ended   bool       // expired, or settled as in done
	done    Settlement
	forget  limit.Time // of the record of the end
}

type holdGame struct {
	*world
	rnd    *rand.Rand
	now    limit.Time
	limits []ledgerLimit
	lots   []*lot
	deals  []*deal
	rest   map[string]limit.Time // policy/key -> when it was last put to rest
	debts  bool                  // a debt was made
}

const gameRetention = 30 * second

func newHoldGame(t *testing.T, rnd *rand.Rand) *holdGame {
	l := func(name string, a limit.Algorithm, quota uint64, period limit.Span) policy.Limit {
		return policy.Limit{Name: name, Limit: limit.Limit{Algorithm: a, Quota: quota, Period: period}}
	}
	p := &policy.Policy{Name: "p", Retention: gameRetention, OnExpire: policy.OnExpireCancel, Limits: []policy.Limit{
		l("window", limit.FixedWindow, 20, 10*second), l("ever", limit.Lifetime, 150, 0)}}
	q := &policy.Policy{Name: "q", Retention: 2 * gameRetention, OnExpire: policy.OnExpireCommit,
		Limits: []policy.Limit{
			l("log", limit.SlidingLog, 14, 15*second), l("running", limit.Concurrency, 9, 0)}}
	return &holdGame{world: newWorld(t, p, q), rnd: rnd, now: origin, rest: map[string]limit.Time{},
		limits: []ledgerLimit{
			{"p", "window", 20, "fixed", 10 * second}, {"p", "ever", 150, "ever", 0},
			{"q", "log", 14, "log", 15 * second}, {"q", "running", 9, "running", 0}}}
}

// play plays one batch of one or several requests.
func (g *holdGame) play() {
	if g.rnd.IntN(3) > 0 {
		g.now += limit.Time(g.rnd.Int64N(int64([]limit.Span{1, second, 5 * second, 20 * second}[g.rnd.IntN(4)])) + 1)
	}
	g.expire()
	var requests []Request
	for range 1 + g.rnd.IntN(4) {
		requests = append(requests, g.draw())
	}
	results, _ := g.batch(g.now, requests...)
	for i := range requests {
		if problem := g.judge(&requests[i], &results[i]); problem != "" {
			g.Errorf("at %v, request %d of %+v:\n%s\ngot %+v, %v", clock(g.now), i, requests, problem,
				results[i].Decision, results[i].Err)
			return
		}
	}
	g.look()
}

// draw returns a random request.
func (g *holdGame) draw() Request {
	r := Request{Namespace: "default", Entries: g.entries()}
	switch n := g.rnd.IntN(20); {
	case n < 4:
		r.Op = Check
	case n < 9:
		r.Op = Reserve
		r.Hold = &HoldTerms{TTL: limit.Span(1 + g.rnd.Int64N(int64(12*second))),
			OnExpire: policy.OnExpire(g.rnd.IntN(3))}
	case n < 18 && len(g.deals) > 0:
		return g.settlement()
	case n == 18:
		r.Op, r.Entries = Reset, r.Entries[:1]
		if g.rnd.IntN(2) == 0 {
			r.Limit = g.limits[g.rnd.IntN(2)+2*int(r.Entries[0].Policy[0]-'p')].name
		}
	case n == 19 && g.rnd.IntN(2) == 0:
		r.Op, r.Entries = SetUsed, r.Entries[:1]
		r.Adjustment = &Adjustment{Amount: int64(g.rnd.IntN(12))}
	default:
		r.Op = Peek
	}
	return r
}

func (g *holdGame) entries() []Entry {
	var all []Entry
	for _, p := range []string{"p", "q"} {
		for _, key := range []string{"a", "b"} {
			all = append(all, Entry{Policy: p, Key: key, Cost: 1 + g.rnd.Uint64N(6)})
		}
	}
	g.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+g.rnd.IntN(2)]
}

// settlement returns a random settlement of a hold or decision, most likely a recent one.
func (g *holdGame) settlement() Request {
	d := g.deals[max(0, len(g.deals)-1-int(g.rnd.ExpFloat64()*3))]
	r, s := d.request, *d.request.Settlement
	r.Settlement = &s
	s.Action = Action(1 + g.rnd.IntN(5))
	if d.ended && g.rnd.IntN(2) == 0 && d.done.Action != 0 {
		s = d.done // again
	}
	switch {
	case s.Action == ActionExtend:
		s.TTL = limit.Span(1 + g.rnd.Int64N(int64(10*second)))
	case s.Action == ActionCommit && !d.ended:
		s.Overage = Overage(g.rnd.IntN(3))
		for range r.Entries {
			s.Actual = append(s.Actual, g.rnd.Uint64N(9))
		}
	}
	return r
}

// expire ends the expired holds.
func (g *holdGame) expire() {
	for _, d := range g.deals {
		if d.request.Settlement.Target.Hold && !d.ended && d.expires <= g.now {
			d.ended = true
			for _, l := range d.lots {
				l.open = false
				if !d.commit && d.request.Settlement.Target.Hold && !l.keeps(d) {
					l.units = 0
				}
			}
		}
	}
}

// keeps reports whether the lot's own policy commits expired holds: a hold of two policies may end in two ways.
func (l *lot) keeps(d *deal) bool {
	return d.request.Hold.OnExpire == policy.OnExpireDefault && l.policy == "q"
}

// used returns what a limit has used and held, according to the list.
func (g *holdGame) used(l *ledgerLimit, key string) (used, held uint64) {
	for _, lot := range g.lots {
		if lot.policy != l.policy || lot.key != key || lot.void[l.name] || !l.inWindow(lot, g.now) {
			continue
		}
		used += lot.units
		if lot.open {
			held += lot.units
		}
	}
	return used, held
}

func (l *ledgerLimit) inWindow(lot *lot, now limit.Time) bool {
	switch l.shape {
	case "fixed":
		return lot.taken/limit.Time(l.period) == now/limit.Time(l.period)
	case "log":
		return now < lot.taken+limit.Time(l.period)
	case "running":
		return lot.open
	}
	return true
}

// of returns the limits of a policy.
func (g *holdGame) of(policy string) (limits []*ledgerLimit) {
	for i := range g.limits {
		if g.limits[i].policy == policy {
			limits = append(limits, &g.limits[i])
		}
	}
	return limits
}

// room returns the room in all limits of an entry; with spent, concurrency limits are left out.
func (g *holdGame) room(policy, key string, spent bool) uint64 {
	room := uint64(limit.MaxCost)
	for _, l := range g.of(policy) {
		if used, _ := g.used(l, key); !spent || l.shape != "running" {
			room = min(room, l.quota-min(l.quota, used))
		}
	}
	return room
}

func (g *holdGame) judge(r *Request, got *Result) string {
	switch r.Op {
	case Check, Reserve, Peek:
		return g.judgeTaking(r, got)
	case Settle:
		return g.judgeSettling(r, got)
	}
	if got.Err != nil {
		return "refused"
	}
	for _, l := range g.of(r.Entries[0].Policy) {
		if r.Limit != "" && l.name != r.Limit || r.Op == SetUsed && l.shape == "running" {
			continue
		}
		key := r.Entries[0].Key
		g.rest[l.policy+"/"+key] = g.now
		for _, lot := range g.lots {
			if lot.policy == l.policy && lot.key == key {
				lot.void[l.name] = true
			}
		}
	}
	if r.Op == SetUsed {
		g.take(r.Entries[0], uint64(r.Adjustment.Amount), false)
	}
	return ""
}

func (g *holdGame) take(e Entry, units uint64, open bool) *lot {
	l := &lot{policy: e.Policy, key: e.Key, taken: g.now, units: units, open: open, void: map[string]bool{}}
	g.lots = append(g.lots, l)
	return l
}

func (g *holdGame) judgeTaking(r *Request, got *Result) string {
	fits := true
	for _, e := range r.Entries {
		fits = fits && e.Cost <= g.room(e.Policy, e.Key, false)
	}
	switch {
	case got.Err != nil:
		return "refused"
	case fits != got.Decision.Allowed:
		return fmt.Sprintf("allowed should be %v", fits)
	case !fits || r.Op == Peek:
		return ""
	}
	at := &got.Decision
	d := &deal{expires: at.HoldExpires, request: Request{Op: Settle, Namespace: "default", Entries: Taken(r, at),
		Hold: r.Hold,
		Settlement: &Settlement{Target: Target{Hold: r.Op == Reserve, Position: at.Position, Index: at.Index,
			DecidedAt: at.DecidedAt}}}}
	if r.Hold != nil {
		d.commit = r.Hold.OnExpire == policy.OnExpireCommit
		if d.expires != g.now+limit.Time(r.Hold.TTL) {
			return "the hold ends at another time"
		}
	}
	ambiguous := false
	for _, e := range r.Entries {
		d.lots = append(d.lots, g.take(e, e.Cost, r.Op == Reserve))
		// A decision contains only its instant. If the key was put to rest at the same instant, the order is unknown,
		// and a refund gives nothing back. Such decisions are not settled.
		ambiguous = ambiguous || r.Op == Check && g.rest[e.Policy+"/"+e.Key] == g.now
	}
	if !ambiguous {
		g.deals = append(g.deals, d)
	}
	return ""
}

func (g *holdGame) judgeSettling(r *Request, got *Result) string {
	s := r.Settlement
	d := g.deals[slices.IndexFunc(g.deals, func(d *deal) bool { return d.request.Settlement.Target == s.Target })]
	code := Code(0)
	if got.Err != nil {
		code = got.Err.Code
	}
	marked := d.ended && d.done.Action != 0 && g.now < d.forget
	again := marked && s.Action == d.done.Action && s.Overage == d.done.Overage && slices.Equal(s.Actual, d.done.Actual)
	late := !s.Target.Hold && g.now >= s.Target.DecidedAt+limit.Time(g.shortest(r))
	want := Code(0)
	switch {
	case s.Action == ActionExtend && !s.Target.Hold:
		want = Invalid
	case again:
		if code != 0 || !got.Decision.Replayed {
			return "the same settlement once more should get its answer"
		}
		return ""
	case d.ended || late:
		want = HoldEnded
	case s.Action == ActionCommit && s.Overage == OverageReject && !g.fits(d, s):
		want = OverQuota
	}
	if want != code {
		return fmt.Sprintf("want error %d", want)
	}
	if want == 0 {
		if got.Decision.Replayed {
			return "this was not asked before"
		}
		g.settle(d, s, r)
	}
	return ""
}

func (g *holdGame) shortest(r *Request) limit.Span {
	shortest := 2 * gameRetention
	for _, e := range r.Entries {
		if e.Policy == "p" {
			shortest = gameRetention
		}
	}
	return shortest
}

// fits reports whether all excess has room.
func (g *holdGame) fits(d *deal, s *Settlement) bool {
	for i, l := range d.lots {
		cost := d.request.Entries[i].Cost
		if s.Actual[i] > cost && s.Actual[i]-cost > g.room(l.policy, l.key, true) {
			return false
		}
	}
	return true
}

// settle applies a settlement to the list.
func (g *holdGame) settle(d *deal, s *Settlement, r *Request) {
	if s.Action == ActionExtend {
		d.expires = g.now + limit.Time(s.TTL)
		return
	}
	d.ended, d.done = true, *s
	d.forget = g.now + limit.Time(g.longest(r))
	if !s.Target.Hold {
		d.forget = s.Target.DecidedAt + limit.Time(g.shortest(r))
	}
	for i, l := range d.lots {
		e := r.Entries[i]
		l.open = false
		actual := e.Cost
		switch {
		case s.Action == ActionCancel || s.Action == ActionSuccess:
			actual = 0
		case s.Actual != nil:
			actual = s.Actual[i]
		}
		if actual < e.Cost {
			l.units -= e.Cost - actual
			continue
		}
		excess := actual - e.Cost
		if s.Overage != OverageDebt {
			excess = min(excess, g.room(e.Policy, e.Key, true))
		}
		g.debts = g.debts || s.Overage == OverageDebt
		g.take(e, excess, false)
	}
}

func (g *holdGame) longest(r *Request) limit.Span {
	longest := gameRetention
	for _, e := range r.Entries {
		if e.Policy == "q" {
			longest = 2 * gameRetention
		}
	}
	return longest
}

// look compares every limit of every key with the list.
func (g *holdGame) look() {
	r := Request{Op: Get, Namespace: "default"}
	for _, p := range []string{"p", "q"} {
		for _, key := range []string{"a", "b"} {
			r.Entries = append(r.Entries, Entry{Policy: p, Key: key})
		}
	}
	results, _ := g.batch(g.now, r)
	if results[0].Err != nil {
		g.Fatal(results[0].Err)
	}
	for _, got := range results[0].Decision.Limits {
		i := slices.IndexFunc(g.limits, func(l ledgerLimit) bool {
			return l.policy == got.Policy && l.name == got.Limit
		})
		used, held := g.used(&g.limits[i], got.Key)
		if got.Used != used || got.Held != held {
			g.Errorf("at %v %s/%s %s has used %d with %d held, it should be %d with %d",
				clock(g.now), got.Policy, got.Key, got.Limit, got.Used, got.Held, used, held)
		}
		if got.Used > got.Quota && !g.debts {
			g.Errorf("at %v %s/%s %s has used %d of %d and nobody made a debt",
				clock(g.now), got.Policy, got.Key, got.Limit, got.Used, got.Quota)
		}
	}
}
