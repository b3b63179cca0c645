package shard

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/slot"
)

var (
	seedFlag       = flag.Uint64("seed", 1, "the seed of the random tests; 0 draws one")
	operationsFlag = flag.Int("operations", twinOperations,
		"requests of the test against the slow twin; the other random tests grow with it")
)

// twinOperations is the usual number of requests that TestEveryDecisionIsTheTwins makes.
const twinOperations = 10_000

// times returns how often a random test does what it does once with the usual number of operations.
func times() int { return max(1, *operationsFlag/twinOperations) }

// seeded returns a source of randomness and prints how to reproduce it.
func seeded(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with: go test ./shard -run '^%s$' -seed=%d -operations=%d", t.Name(), seed, *operationsFlag)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestEveryDecisionIsTheTwins has a shard decide runs of random requests, with up to two entries not yet installed,
// under changing policies, through snapshots, and at instants where something ends. check.History decides them a second
// time. A failing run is cut down to the necessary steps and printed.
func TestEveryDecisionIsTheTwins(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	operations := *operationsFlag
	met := map[string]int{}
	for n := 0; n < operations; {
		p := drawPlan(rnd)
		r := p.run()
		n += r.requests
		for what, times := range r.met {
			met[what] += times
		}
		if r.err != nil {
			t.Fatalf("%v", p.shrink())
		}
	}
	mustHaveMet(t, met, operations)
}

// mustHaveMet fails if the runs have missed an important case.
func mustHaveMet(t *testing.T, met map[string]int, operations int) {
	var told []string
	for what, n := range met {
		told = append(told, fmt.Sprintf("%8d %s", n, what))
	}
	slices.Sort(told)
	t.Logf("met:\n%s", strings.Join(told, "\n"))
	var wanted []string
	if operations >= 10_000 {
		wanted = []string{
			"allowed", "denied", "denied and counted", "denied by a block", "denied in shadow", "id reused", "replayed",
			"hold opened", "hold ended refused", "held", "lockout level", "restored", "dealt around",
			"policies changed", "partly granted",
			"key refused", "banned", "blocked for limited time", "settled again", "extended", "inline",
			"tally below zero", "tally of nothing", "tally with an end", "tally dropped", "tally that was there before",
			"tally left alone", "looked beside a take", "denied by a look", "challenged",
			"challenged where denials count",
			"billed", "corrected", "correction refused", "fired", "fired without a sink", "fired for ever",
			"fired in a period", "fired again in the next window", "fired, says a get"}
	}
	// some come twice in 40,000, or in none of 40,000 and 100 times in the next: a day's run may miss them
	if operations >= 500_000 {
		wanted = append(wanted,
			"credited after final", "commit over quota", "forgotten with a hold", "corrected once",
			"forgotten under several policies", "corrected after final", "tally too large")
	}
	for _, what := range wanted {
		if met[what] == 0 {
			t.Errorf("no run met this: %s", what)
		}
	}
}

// run is one execution of a plan.
type run struct {
	*owner
	history  *model.History
	judged   *judge
	plan     *plan
	revision int
	now      limit.Time
	requests int
	taken    []taken   // what can be settled
	settled  []Request // settlements made
	corrects []Request // corrections with an id
	// overridden has a request for each key that was given an override which ends.
	overridden []Request
	named      []Request    // requests with an id, to be repeated
	instants   []limit.Time // at which something ends
	story      []string
	told       string // the figures of the outbox when its events were compared
	met        map[string]int
	err        error
}

// taken is a hold or decision that can be settled.
type taken struct {
	target  Target
	entries []Entry
}

// failing is a TB with failures that end a run but not the test.
type failing struct{ testing.TB }

func (failing) Fatalf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }
func (failing) Fatal(args ...any)                 { panic(errors.New(fmt.Sprint(args...))) }
func (failing) Errorf(format string, args ...any) { panic(fmt.Errorf(format, args...)) }
func (failing) Helper()                           {}

// run executes a plan until a difference.
func (p *plan) run() (r *run) {
	tb := failing{}
	r = &run{plan: p, history: model.NewHistory(p.revisions[0]...), judged: newJudge(), now: origin,
		met: map[string]int{}}
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case error:
			r.err = failure
			if _, ours := failure.(interface{ RuntimeError() }); ours {
				r.err = fmt.Errorf("panic: %w\n%s", failure, debug.Stack())
			}
		default:
			r.err = fmt.Errorf("panic: %v\n%s", failure, debug.Stack())
		}
	}()
	r.owner = &owner{world: newWorld(tb, p.revisions[0]...), overlay: map[string]Record{}}
	r.adopt(origin, r.policies)
	for i := range p.steps {
		r.step(&p.steps[i])
	}
	for len(r.pending) > 0 {
		r.installOldest()
	}
	audit(tb, r.state)
	return r
}

func (r *run) step(s *step) {
	r.now = max(r.now+1, r.until(s))
	r.tellf("at %d", r.now-origin)
	switch {
	case s.restore:
		r.restoreAll(s)
	case s.revision > 0 && len(r.plan.revisions) > 1:
		r.revision = s.revision % len(r.plan.revisions)
		r.adopt(r.now, policy.NewSet(r.plan.revisions[r.revision]))
		r.history.Adopt(r.now, r.plan.revisions[r.revision]...)
		r.now++
		r.rewriteOverridden()
		r.judged.revise()
		r.met["policies changed"]++
		r.tellf("policies %d", r.revision)
	}
	r.forgetBills()
	var requests []Request
	for i := range s.wishes {
		q := r.request(&s.wishes[i], requests)
		if q.Op == CorrectUsage && i > 0 { // again; it is alone in its batch
			continue
		}
		if q.Op == Forget && i > 0 { // likewise
			break
		}
		if requests = append(requests, q); q.Op == Forget || q.Op == CorrectUsage {
			break
		}
	}
	results := r.decide(r.now, requests)
	for i := range requests {
		r.judge(&requests[i], &results[i])
		r.learn(&requests[i], &results[i])
		r.judgeFired(&requests[i], &results[i])
	}
	r.judgeBills()
	r.judgeEvents()
	for len(r.pending) > s.pending {
		r.installOldest()
	}
	r.requests += len(requests)
}

// rewriteOverridden has the shard write the keys that had overrides which end: when such a record is forgotten depends
// on the policy of the time when it was written, which the twin does not model.
func (r *run) rewriteOverridden() {
	if len(r.overridden) == 0 {
		return
	}
	results := r.decide(r.now, r.overridden)
	for i := range r.overridden {
		r.judge(&r.overridden[i], &results[i])
	}
	r.overridden = nil
	r.now++
}

// until returns the instant of a step: some time after the last, or where something ends.
func (r *run) until(s *step) limit.Time {
	var ahead []limit.Time
	for _, at := range r.instants {
		if at > r.now {
			ahead = append(ahead, at)
		}
	}
	if r.instants = ahead; s.boundary && len(ahead) > 0 {
		return ahead[s.pick%len(ahead)] + limit.Time(s.off)
	}
	return r.now + s.wait
}

// restoreAll installs the pending entries, and continues with a State restored from a snapshot.
func (r *run) restoreAll(s *step) {
	for len(r.pending) > 0 {
		r.installOldest()
	}
	var file bytes.Buffer
	if _, err := r.state.Snapshot().WriteTo(&file); err != nil {
		panic(err)
	}
	state, err := Restore(r.state.id, &file)
	if err != nil || state.Sum() != r.state.Sum() {
		panic(fmt.Errorf("a snapshot of the state gives another: %w", err))
	}
	r.state = state
	r.met["restored"]++
	r.dealAround(s)
}

// dealAround has the shard go on from an exact backup of a cluster of other numbers of shards, one after the other,
// that ends as one shard again. It is refused as long as a hold is open on keys of several shards.
func (r *run) dealAround(s *step) {
	states, index := []*State{r.state}, r.index
	for _, slots := range []*slot.Map{slot.Even(uint32(2 + s.pick%4)), slot.Even(uint32(1 + s.pick/4%5)),
		allOn(r.state.id)} {
		var err error
		index += epochsAhead
		if states, _, err = Continue(states, Restoration{Slots: slots, Exact: true, Now: r.now, Before: index,
			Policies: r.policies}); err != nil {
			if !strings.Contains(err.Error(), "open holds have keys") {
				panic(err)
			}
			r.met["not dealt: a hold is open"]++
			return
		}
		for _, one := range states {
			audit(r.TB, one)
		}
	}
	r.state, r.index, r.term = states[r.state.id], index, r.term+1
	r.append(EncodeEpochOpen(r.state.id, r.state.Time(), LevelNewest))
	r.met["dealt around"]++
}

// request turns a wish into a request: it fills in the parts that only the run knows.
func (r *run) request(w *wish, before []Request) Request {
	switch {
	case w.again && len(before) > 0 && w.pick%2 == 0:
		return before[w.pick/2%len(before)]
	case w.again && len(r.named) > 0:
		return r.adjustable(r.named[len(r.named)-1-w.pick/2%min(len(r.named), 30)])
	}
	q := w.request
	q.Entries = slices.Clone(q.Entries)
	for i := range q.Entries {
		e := &q.Entries[i]
		p, _ := r.policies.Lookup(e.Policy)
		if _, known := p.Tiers[e.Tier]; !known {
			e.Tier = ""
		}
	}
	switch q.Op {
	case Settle:
		return r.settlement(w, q)
	case PutOverride:
		p, _ := r.policies.Lookup(q.Entries[0].Policy)
		a := *q.Adjustment
		o := *a.Override
		if o.Expires != 0 {
			o.Expires += r.now
		}
		if _, problem := p.OverrideProblem(&o); problem != "" || o.Tier == "" && len(o.Limits) == 0 {
			return Request{Op: Get, Namespace: q.Namespace, Entries: q.Entries}
		}
		a.Override = &o
		q.Adjustment = &a
	case CorrectUsage:
		return r.correction(w, q)
	case Tally:
		t := *q.Tally
		if t.At {
			t.TTL += limit.Span(r.now)
		}
		q.Tally = &t
	case Block:
		a := *q.Adjustment
		a.Until += r.now
		q.Adjustment = &a
	case Forget:
		q.Adjustment = &Adjustment{Forget: q.Entries[0].Key, Bills: true}
	case Reset, SetUsed, AddUsed:
		limits := r.limitsOf(&q)
		if !slices.ContainsFunc(limits, q.adjusts) {
			q.Limit = ""
		}
		return r.adjustable(q)
	}
	return q
}

// adjustable returns a request, or a read in place of one that the policies in force refuse, which may have changed
// since it was made.
func (r *run) adjustable(q Request) Request {
	for i := range q.Entries {
		p, _ := r.policies.Lookup(q.Entries[i].Policy)
		if _, known := p.Tiers[q.Entries[i].Tier]; !known && q.Entries[i].Tier != "" && q.Op != Settle {
			plain := slices.Clone(q.Entries)
			plain[i].Tier = ""
			return r.adjustable(Request{Op: Get, Namespace: q.Namespace, Entries: plain})
		}
	}
	switch q.Op {
	case Reset, SetUsed, AddUsed:
		if !slices.ContainsFunc(r.limitsOf(&q), q.adjusts) {
			return Request{Op: Get, Namespace: q.Namespace, Entries: q.Entries}
		}
	}
	return q
}

func (r *run) limitsOf(q *Request) []policy.Limit {
	if q.Entries[0].Limits != nil {
		return q.Entries[0].Limits
	}
	p, _ := r.policies.Lookup(q.Entries[0].Policy)
	return p.Limits
}

// adjusts reports whether an adjustment is meant for a limit and can change it.
func (r *Request) adjusts(l policy.Limit) bool {
	return r.means(l.Name) && (r.Op == Reset || l.Algorithm != limit.Concurrency)
}

// settlement fills in the target, or repeats an earlier settlement.
func (r *run) settlement(w *wish, q Request) Request {
	if len(r.settled) > 0 && w.pick%5 == 0 {
		return r.settled[len(r.settled)-1-w.pick/5%min(len(r.settled), 10)]
	}
	if len(r.taken) == 0 {
		return Request{Op: Get, Namespace: q.Namespace, Entries: q.Entries}
	}
	t := r.taken[len(r.taken)-1-w.pick/5%min(len(r.taken), 12)]
	s := *q.Settlement
	s.Target, q.Entries = t.target, t.entries
	if s.Action == ActionExtend && !s.Target.Hold {
		s.Action = ActionCancel
	}
	if s.Action != ActionExtend {
		s.TTL = 0
	}
	if s.Action == ActionCommit && w.pick%3 > 0 {
		for i, e := range q.Entries {
			actual := e.Cost
			if n := uint64(w.pick / 60 % 7); n < 4 {
				actual -= min(actual, n)
			} else {
				actual += n - 3
			}
			if i > 0 {
				actual = e.Cost
			}
			s.Actual = append(s.Actual, actual)
		}
	}
	q.Settlement = &s
	r.settled = append(r.settled, q)
	return q
}

// judge has the twin decide the request, and compares.
func (r *run) judge(q *Request, got *Result) {
	if r.plan.tells { // printing takes as long as deciding
		r.tellf("    %s\n        %s", shown(q), shownResult(got))
	}
	d := decided(q, got, r.stamp)
	if err := r.history.Decide(&d); err != nil {
		panic(fmt.Errorf("at %d: %s\n%w", r.now-origin, shown(q), err))
	}
}

func decided(q *Request, got *Result, at Stamp) model.Decided {
	d := model.Decided{Slot: uint32(q.Slot()), Place: model.Place{Epoch: at.Epoch, Seq: at.Seq, At: at.Now},
		Op: model.Op(q.Op), ID: q.ID, Limit: q.Limit}
	for i := range q.Entries {
		e := &q.Entries[i]
		d.Charges = append(d.Charges, model.Charge{Policy: e.Policy, Key: e.Key, Cost: e.Cost, Tier: e.Tier,
			Inline: inlineOf(e)})
	}
	if q.Hold != nil {
		d.TTL, d.OnExpire = q.Hold.TTL, q.Hold.OnExpire
	}
	if s := q.Settlement; s != nil {
		t := &s.Target
		d.Settlement = &model.Settlement{Action: model.Action(s.Action), Actual: s.Actual,
			Overage: model.Overage(s.Overage), TTL: s.TTL, Target: model.Target{Hold: t.Hold, Index: t.Index,
				Place: model.Place{Epoch: t.Position.Epoch, Seq: t.Position.Seq, At: t.DecidedAt}}}
	}
	if a := q.Adjustment; a != nil {
		d.Amount, d.Until, d.Override = a.Amount, a.Until, a.Override
	}
	if q.Op == CorrectUsage {
		d.Correction = correctionOf(q)
	}
	if t := q.Tally; t != nil {
		d.Tally = &model.TallyTerms{Verb: model.Verb(t.Verb), When: model.When(t.When), KeepTTL: t.KeepTTL, At: t.At,
			Amount: t.Amount, TTL: t.TTL}
	}
	if got.Err == nil {
		d.Answer = answerOf(&got.Decision)
		return d
	}
	switch got.Err.Code {
	case IDReused:
		d.Refused = model.IDReused
	case HoldEnded:
		d.Refused = model.HoldEnded
	case OverQuota:
		d.Refused = model.OverQuota
	case KeyNotFound:
		d.Refused = model.KeyUnknown
	case Invalid:
		switch q.Op {
		case Tally:
			d.Refused = model.TooLarge
		case CorrectUsage:
			d.Refused = model.NoPeriod
		default:
			panic(got.Err)
		}
	default:
		panic(got.Err)
	}
	return d
}

func answerOf(d *Decision) model.Answer {
	a := model.Answer{Place: model.Place{Epoch: d.Position.Epoch, Seq: d.Position.Seq, At: d.DecidedAt}, Index: d.Index,
		Allowed: d.Allowed, ShadowDenied: d.ShadowDenied, Challenged: d.Challenged(), Replayed: d.Replayed,
		RetryAfter:  d.RetryAfter,
		HoldExpires: d.HoldExpires}
	if t := d.Tallied; t != nil {
		a.Tallied = new(model.Tallied(*t))
	}
	for _, s := range d.Limits {
		a.Limits = append(a.Limits, model.Status{Limit: s.Limit, Quota: s.Quota, Unlimited: s.Unlimited,
			Shadow: s.Shadow, Soft: s.Soft,
			Held: s.Held, Granted: s.Granted, LockoutLevel: s.LockoutLevel, BlockedUntil: s.BlockedUntil,
			Blocked: s.Blocked, ByHand: s.ByHand,
			Verdict: s.Verdict})
	}
	return a
}

// learn remembers what later requests can refer to, and counts the cases met.
func (r *run) learn(q *Request, got *Result) {
	if got.Err != nil && got.Err.Code == Invalid && q.Op == CorrectUsage {
		r.met["correction refused"]++
		return
	}
	if got.Err != nil {
		r.met[map[Code]string{IDReused: "id reused", HoldEnded: "hold ended refused", OverQuota: "commit over quota",
			KeyNotFound: "key refused", Invalid: "tally too large"}[got.Err.Code]]++
		return
	}
	d := &got.Decision
	if err := r.judged.hear(r, q, d); err != nil {
		panic(fmt.Errorf("at %d: %s\n%w", r.now-origin, shown(q), err))
	}
	if q.Op == CorrectUsage {
		if err := r.judgeCorrection(q, d); err != nil {
			panic(fmt.Errorf("at %d: %s\n%w", r.now-origin, shown(q), err))
		}
	}
	r.count(q, d)
	if q.ID != "" && q.Op != Block && q.Op != PutOverride && q.Limit == "" { // those may not be possible later
		r.named = append(r.named, *q)
	}
	r.instants = append(r.instants, d.HoldExpires, r.now+limit.Time(d.RetryAfter))
	for i := range d.Limits {
		r.instants = append(r.instants, d.Limits[i].ResetAt, d.Limits[i].BlockedUntil)
	}
	if d.Tallied != nil {
		r.instants = append(r.instants, d.Tallied.EndsAt)
	}
	if q.Op == PutOverride {
		if q.Adjustment.Override.Expires != 0 {
			r.overridden = append(r.overridden, Request{Op: Unblock, Namespace: q.Namespace,
				Entries: []Entry{{Policy: q.Entries[0].Policy, Key: q.Entries[0].Key}}, Adjustment: &Adjustment{}})
		}
		r.instants = append(r.instants, q.Adjustment.Override.Expires)
	}
	if slices.ContainsFunc(q.Entries, func(e Entry) bool { return e.Limits != nil }) {
		r.met["inline"]++
		return // its id would have only the names of the limits
	}
	if !d.Allowed || d.Index == 0 || q.Op != Check && q.Op != Partial && q.Op != Count && q.Op != Reserve {
		return // a denial has no id, even if it was counted
	}
	r.taken = append(r.taken, taken{entries: Taken(q, d),
		target: Target{Hold: d.HoldExpires != 0, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}})
}

// countsDenials reports whether a policy of a request counts its denials.
func (r *run) countsDenials(q *Request) bool {
	return slices.ContainsFunc(q.Entries, func(e Entry) bool {
		p, _ := r.policies.Lookup(e.Policy)
		return q.Op != Peek && p.CountDenied && e.Limits == nil
	})
}

func (r *run) count(q *Request, d *Decision) {
	note := func(is bool, what string) {
		if is {
			r.met[what]++
		}
	}
	if t := d.Tallied; t != nil {
		note(t.Value < 0, "tally below zero")
		note(t.Known && t.Value == 0, "tally of nothing")
		note(t.EndsAt != 0, "tally with an end")
		note(t.Done && !t.Known, "tally dropped")
		note(t.Was, "tally that was there before")
		note(q.Op == Tally && !t.Done, "tally left alone")
	}
	note(d.Answer().Forgot.Counters > 1, "forgotten under several policies")
	note(d.Answer().Forgot.Holds > 0, "forgotten with a hold")
	deciding := q.Op != Settle && q.Op != Get
	note(deciding && d.Allowed, "allowed")
	note(!d.Allowed, "denied")
	note(!d.Allowed && d.Index != 0, "denied and counted")
	note(d.ShadowDenied, "denied in shadow")
	note(d.Challenged(), "challenged")
	note(d.Challenged() && r.countsDenials(q), "challenged where denials count")
	note(d.Replayed && q.Op != Settle, "replayed")
	note(d.Replayed && q.Op == Settle, "settled again")
	note(q.Op == Reserve && d.HoldExpires != 0, "hold opened")
	note(q.Op == Settle && d.HoldExpires != 0, "extended")
	looks := q.Op == Check && slices.ContainsFunc(q.Entries, func(e Entry) bool { return e.Cost == 0 })
	note(looks && d.Allowed && len(q.Entries) > 1, "looked beside a take")
	note(looks && !d.Allowed, "denied by a look")
	for i := range d.Limits {
		s := &d.Limits[i]
		note(s.Quota == 0 && !s.Unlimited && !d.Allowed, "banned")
		note(s.Held > 0, "held")
		note(s.LockoutLevel > 0, "lockout level")
		note(!d.Allowed && s.Blocked, "denied by a block")
		note(!d.Allowed && s.Blocked && d.RetryAfter > 0, "blocked for limited time")
		note(q.Op == Partial && s.Granted > 0 && s.Granted < q.Entries[0].Cost, "partly granted")
	}
}
