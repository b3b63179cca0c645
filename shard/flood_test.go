package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// capped is a shard with limited memory, and one entry node, which reports with each request that all earlier ones are
// finished.
type capped struct {
	*world
	most    int // bytes
	session Session
	last    uint64
	now     limit.Time
}

func (c *capped) Room() Room { return Room{Used: UseOf(c.state.Bytes(), c.most)} }

func newCapped(t testing.TB, most int) *capped {
	denied := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 1, Period: hour})
	denied.Name, denied.CountDenied = "denied", true
	denied.Lockout = &policy.Lockout{After: 3, Base: minute, Factor: 2, Max: hour, OnDenied: true}
	held := onePolicy(limit.Limit{Algorithm: limit.Concurrency, Quota: 1 << 20})
	held.Name = "held"
	log := onePolicy(limit.Limit{Algorithm: limit.SlidingLog, Quota: limit.MaxLogQuota, Period: hour})
	log.Name = "log"
	w := newWorld(t, onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 1 << 40, Period: hour},
		limit.Limit{Algorithm: limit.TokenBucket, Quota: 1 << 40, Period: second, Count: 1, Initial: 1 << 40}),
		denied, held, log)
	c := &capped{world: w, most: most, now: origin}
	c.renew()
	return c
}

// renew opens a session.
func (c *capped) renew() {
	results := c.send(Request{Op: OpenSession})
	c.session, c.last = results[0].Decision.Answer().Session, 0
}

// send has requests decided as from an entry node that receives the answers of each batch before it sends the next.
func (c *capped) send(requests ...Request) (results []Result) {
	acked := c.last
	for i := range requests {
		if requests[i].Op.Changes() && requests[i].Operation == nil {
			c.last++
			requests[i] = inSession(requests[i], c.session, c.last, acked)
		}
	}
	for len(results) < len(requests) {
		c.now += 1000
		at := c.next(c.now)
		some, puts := Evaluate(c, c.policies, requests[len(results):], at)
		c.append(EncodeBatch(at, puts))
		results = append(results, some...)
	}
	return results
}

// fill fills the shard with keys that are not used again, up to eighths eighths of the cap.
func (c *capped) fill(eighths int) {
	for i := 0; c.state.Bytes() < c.most/8*eighths; i++ {
		var requests []Request
		for j := range 64 {
			requests = append(requests, checkOf("p", fmt.Sprintf("fill:%d:%d", i, j), 1))
		}
		for _, r := range c.send(requests...) {
			if r.Err != nil && r.Err.Code != MemoryFull {
				c.Fatal(r.Err)
			}
		}
	}
}

// bounded fails if the shard exceeds its cap by more than one batch may add.
func (c *capped) bounded(what string) {
	c.Helper()
	if bytes := c.state.Bytes(); bytes > c.most+c.most/64 {
		c.Fatalf("%s: %d records in %d bytes, at most %d are allowed", what, c.state.Records(), bytes, c.most)
	}
}

// S8: under any requests, the records stay below the cap. Each flood is of one kind and comes in a session with a node
// that receives its answers, on a shard that is nearly full, full, or filled by the flood itself.
func TestNoFloodFillsAShard(t *testing.T) {
	one := func(i int) string { return fmt.Sprint("key:", i%50) }
	entries := func(policy, key string) []Entry { return []Entry{{Policy: policy, Key: key, Cost: 1}} }
	settle := func(d *Decision, hold bool, entries []Entry) Request {
		return Request{Op: Settle, Namespace: "default", Entries: entries, Settlement: &Settlement{Action: ActionCancel,
			Target: Target{Hold: hold, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}}
	}
	reserve := func(key string, ttl limit.Span) Request {
		return Request{Op: Reserve, Namespace: "default", Entries: entries("held", key), Hold: &HoldTerms{TTL: ttl}}
	}
	floods := map[string]func(c *capped, i int){
		"new keys": func(c *capped, i int) { c.send(checkOf("p", fmt.Sprint("new:", i), 1)) },
		"new ids": func(c *capped, i int) {
			r := checkOf("p", one(i), 1)
			r.ID = fmt.Sprint("id:", i)
			c.send(r)
		},
		"counted denials": func(c *capped, i int) { c.send(checkOf("denied", one(i), 1)) },
		"holds":           func(c *capped, i int) { c.send(reserve(one(i), hour)) },
		"holds and cancels": func(c *capped, i int) {
			if r := c.send(reserve(one(i), second))[0]; r.Err == nil && r.Decision.Allowed {
				c.send(settle(&r.Decision, true, entries("held", one(i))))
			}
		},
		"cancels, again and again, each with an id": func(c *capped, i int) {
			if r := c.send(reserve(one(i), second))[0]; r.Err == nil && r.Decision.Allowed {
				for j := range 5 {
					again := settle(&r.Decision, true, entries("held", one(i)))
					again.ID = fmt.Sprint("again:", i, ":", j)
					c.send(again)
				}
			}
		},
		"refunds": func(c *capped, i int) {
			if r := c.send(checkOf("p", one(i), 1))[0]; r.Err == nil && r.Decision.Allowed {
				refund := settle(&r.Decision, false, entries("p", one(i)))
				refund.Entries[0].Counted = []LimitPrint{printOf("a")}
				c.send(refund)
			}
		},
		"partials": func(c *capped, i int) {
			c.send(Request{Op: Partial, Namespace: "default", Entries: entries("p", one(i))})
		},
		"long logs": func(c *capped, i int) {
			for j := range 8 {
				c.send(checkOf("log", one(8*i+j), 1))
			}
		},
		"limits of many names": func(c *capped, i int) {
			r := checkOf("mine", one(i), 1)
			r.Entries[0].Limits = []policy.Limit{{Name: fmt.Sprint("limit:", i%3000),
				Limit: limit.Limit{Algorithm: limit.FixedWindow,
					Quota: 1 << 40, Period: hour}}}
			c.send(r)
		},
		"tallies": func(c *capped, i int) {
			c.send(tallyOf(fmt.Sprint("tally:", i), TallyTerms{Verb: TallyAdd, Amount: 1}))
		},
		"changes by hand": func(c *capped, i int) {
			c.send(Request{Op: AddUsed, Namespace: "default", Entries: entries("p", one(i)),
				Adjustment: &Adjustment{Amount: 1, Note: one(i)}})
		},
		"overrides": func(c *capped, i int) {
			quota := uint64(i)
			c.send(Request{Op: PutOverride, Namespace: "default", Entries: entries("p", one(i)),
				Adjustment: &Adjustment{
					Override: &policy.Override{Limits: map[string]policy.TierLimit{"a": {Quota: &quota}}}}})
		},
		"legs": func(c *capped, i int) {
			c.send(Request{Op: Charge, Namespace: "default", Entries: entries("p", one(i)), Operation: &Operation{
				ID: fmt.Sprint("leg:", i), Op: Check, Home: 1, Drawn: true, TTL: operationTTL}})
		},
		"operations": func(c *capped, i int) {
			c.send(Request{Op: Conclude, Namespace: "default", Entries: entries("p", one(i)), Operation: &Operation{
				ID: fmt.Sprint("operation:", i), Op: Check, Home: mine, Legs: []Leg{{Slot: 1, Allowed: i%2 == 0,
					Decision: Decision{Allowed: i%2 == 0, DecidedAt: c.now, Position: Position{1, 1, uint64(i)},
						Index: 1}}}}})
		},
		"operations that home does not know": func(c *capped, i int) {
			c.send(Request{Op: ResolveHome, Namespace: "default",
				Operation: &Operation{ID: fmt.Sprint("unknown:", i), Home: mine, Leg: 1,
					Drawn: true,
					Legs: []Leg{{Slot: 1, Decision: Decision{DecidedAt: c.now, Position: Position{1, 1, uint64(i)},
						Index: 1}}}}})
		},
		"verdicts on what was never charged": func(c *capped, i int) {
			c.send(Request{Op: FinishLeg, Namespace: "default",
				Operation: &Operation{ID: fmt.Sprint("verdict:", i), Home: 1, Leg: mine,
					Verdict: Verdict{Known: true, State: OperationAborted}}})
		},
	}
	rounds := 1500 * min(4, times())
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCapped(t, 256<<10)
			for i := range 50 {
				c.send(checkOf("p", one(i), 1), checkOf("log", one(i), 1), checkOf("denied", one(i), 1),
					reserve(one(i), hour))
			}
			c.fill(6)
			for i := range rounds {
				flood(c, i)
				c.bounded(name)
			}
			// Existing keys are served, and giving units back is never refused.
			if r := c.send(checkOf("p", one(7), 1))[0]; r.Err != nil || !r.Decision.Allowed {
				t.Errorf("a key that was there: %+v", r)
			}
		})
	}
}

// Requests with answered callers leave nothing behind. (Each reserve, settlement and counted denial once left a record
// for ten minutes.)
func TestAnswersAreForgottenWithTheirNumbers(t *testing.T) {
	c := newCapped(t, 1<<30)
	c.send(checkOf("denied", "k", 1), Request{Op: Reserve, Namespace: "default",
		Entries: []Entry{{Policy: "held", Key: "k", Cost: 1}}, Hold: &HoldTerms{TTL: hour}})
	before := c.state.Records()
	for range 100 {
		var batch []Request
		for range 50 {
			batch = append(batch, checkOf("denied", "k", 1),
				Request{Op: Partial, Namespace: "default", Entries: []Entry{{Policy: "p", Key: "k", Cost: 3}}})
		}
		c.send(batch...)
	}
	c.send(checkOf("p", "k", 1))
	kept := 0
	for key := range allRecords(c.state) {
		kept += int(bit(key[0] == sessionAnswerRecord))
	}
	// The counter of p/k is new.
	if records := c.state.Records(); kept > 0 || records > before+1 {
		t.Errorf("%d records, before 10,000 requests %d; %d of them are answers", records, before, kept)
	}
}

// Thousands of numbers may become finished at once. Forgetting their answers must not make an entry too large.
func TestManyAnswersAreForgottenStepByStep(t *testing.T) {
	c := newCapped(t, 1<<30)
	var batch []Request
	for range 20_000 {
		batch = append(batch, Request{Op: Partial, Namespace: "default",
			Entries: []Entry{{Policy: "p", Key: "k", Cost: 1}}})
	}
	c.send(batch...)
	for range 12 {
		c.now += 1000
		at := c.next(c.now)
		c.last++
		results, puts := Evaluate(c, c.policies,
			[]Request{inSession(checkOf("p", "k", 1), c.session, c.last, c.last-1)}, at)
		payload := EncodeBatch(at, puts)
		if c.append(payload); results[0].Err != nil || len(payload) > MaxEntryBytes || len(puts) > forgottenMost+2 {
			t.Fatalf("%+v, in an entry of %d bytes, %d effects", results[0], len(payload), len(puts))
		}
	}
	if records := c.state.Records(); records > 3 {
		t.Errorf("%d records are left", records)
	}
}

// A copy of a counted denial gets the same denial again, with its wait, and is counted once.
func TestACopyOfACountedDenialIsDenied(t *testing.T) {
	c := newCapped(t, 1<<30)
	c.send(checkOf("denied", "k", 1))
	denial := inSession(checkOf("denied", "k", 1), c.session, 2, 1)
	reserve := inSession(Request{Op: Reserve, Namespace: "default", Entries: denial.Entries,
		Hold: &HoldTerms{TTL: hour}}, c.session, 3, 1)
	decide := func(requests ...Request) []Result {
		c.now += 1000
		at := c.next(c.now)
		results, puts := Evaluate(c, c.policies, requests, at)
		for _, put := range puts {
			if put.Key[0] == sessionAnswerRecord {
				t.Errorf("a counted denial has a record of its own, besides the session's")
			}
		}
		c.append(EncodeBatch(at, puts))
		return results
	}
	first := decide(denial, reserve)
	used := first[1].Decision.Limits[0].Used
	denial.Retry, reserve.Retry = true, true
	for i, again := range decide(denial, reserve) {
		want := first[i]
		if want.Decision.Replayed = true; fmt.Sprint(again) != fmt.Sprint(want) || again.Decision.Allowed {
			t.Errorf("again %+v\nfirst %+v", again, want)
		}
	}
	if got := decide(Request{Op: Get, Namespace: "default",
		Entries: denial.Entries})[0].Decision.Limits[0].Used; got != used {
		t.Errorf("%d are used, before the copies %d", got, used)
	}
}

// A counted denial stays a denial, even when its exact answer is forgotten.
func TestACopyOfAForgottenCountedDenialIsDenied(t *testing.T) {
	c := newCapped(t, 1<<30)
	c.send(checkOf("denied", "first", 1))
	first := c.last + 1
	for n := 0; n < 6_000; n += 10 { // the first of them are dropped
		var ten []Request // each entry writes the whole session
		for i := range 10 {
			c.last++
			ten = append(ten, inSession(checkOf("denied", fmt.Sprint("key:", (n+i)%3000), 1), c.session,
				c.last, first-1))
		}
		if n == 0 {
			ten[0].Entries[0].Key = "first"
		}
		c.now += 5
		if results, _ := c.batch(c.now, ten...); n == 0 && results[0].Decision.Allowed {
			t.Fatal("it is not denied")
		}
	}
	again := inSession(checkOf("denied", "first", 1), c.session, first, first-1)
	again.Retry = true
	results, puts := c.batch(c.now+1, again)
	if d := results[0].Decision; results[0].Err != nil || d.Allowed || !d.Replayed || d.RetryAfter <= 0 ||
		len(puts) > 1 {
		t.Errorf("%+v, %d effects", results[0], len(puts))
	} else if d.Index != 0 {
		t.Error("its exact answer is not forgotten")
	}
	results, _ = c.batch(c.now+limit.Time(2*hour), again)
	if d := results[0].Decision; results[0].Err == nil && (d.Allowed || d.RetryAfter <= 0) {
		t.Errorf("when it would be admitted: %+v", results[0])
	}
}

// A full shard refuses exactly the requests that would add a record, before anything is counted.
func TestWhatAFullShardRefuses(t *testing.T) {
	c := newCapped(t, 1<<30)
	entries := func(policy string) []Entry { return []Entry{{Policy: policy, Key: "k", Cost: 1}} }
	reserve := Request{Op: Reserve, Namespace: "default", Entries: entries("held"), Hold: &HoldTerms{TTL: hour}}
	first := c.send(reserve, reserve, reserve, checkOf("p", "k", 1), checkOf("denied", "k", 1))
	settle := func(hold bool, i int, s Settlement, entries []Entry) Request {
		d := &first[i].Decision
		s.Target = Target{Hold: hold, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}
		return Request{Op: Settle, Namespace: "default", Entries: entries, Settlement: &s}
	}
	withID := checkOf("p", "k", 1)
	withID.ID = "id"
	c.most = c.state.Bytes() * 16 / 15 // full, but far from brimful
	for _, r := range []struct {
		what    string
		refused bool
		request Request
	}{
		{"a check of a key that is there", false, checkOf("p", "k", 1)},
		{"a counted denial", false, checkOf("denied", "k", 1)},
		{"a new key", true, checkOf("p", "new", 1)},
		{"a new id", true, withID},
		{"a hold", true, reserve},
		{"the refund of a decision", true, settle(false, 3, Settlement{Action: ActionCancel}, entries("p"))},
		{"an operation's leg", true, Request{Op: Charge, Namespace: "default", Entries: entries("p"),
			Operation: &Operation{ID: "x", Op: Check, Home: 1, TTL: operationTTL}}},
		{"the cancel of a hold", false, settle(true, 0, Settlement{Action: ActionCancel}, entries("held"))},
		{"the commit of a hold", false, settle(true, 1, Settlement{Action: ActionCommit}, entries("held"))},
		{"more time for a hold", false, settle(true, 2, Settlement{Action: ActionExtend, TTL: hour}, entries("held"))},
		{"a reset", false, Request{Op: Reset, Namespace: "default", Entries: entries("p")}},
		{"a look", false, Request{Op: Get, Namespace: "default", Entries: entries("p")}},
	} {
		c.most = c.state.Bytes() * 16 / 15
		counters := fmt.Sprint(countersOf(c.world))
		err := c.send(r.request)[0].Err
		switch {
		case !r.refused && err != nil:
			t.Errorf("%s: %v", r.what, err)
		case r.refused && (err == nil || err.Code != MemoryFull || err.MaybeApplied() ||
			!strings.Contains(err.Message, untilOldEnd)):
			t.Errorf("%s: %v", r.what, err)
		case r.refused && fmt.Sprint(countersOf(c.world)) != counters:
			t.Errorf("%s was refused, and counted", r.what)
		}
	}
}

// countersOf returns the records of the world's counters.
func countersOf(w *world) map[string]Record {
	all := allRecords(w.state)
	for key := range all {
		if key[0] != counterRecord {
			delete(all, key)
		}
	}
	return all
}

// On a brimful shard a hold ends as usual but leaves no record, so memory is given back. It ends once, and a retry of
// the settlement gets HoldEnded.
func TestAHoldEndsAtTheBrim(t *testing.T) {
	c := newCapped(t, 1<<30)
	entries := []Entry{{Policy: "held", Key: "k", Cost: 1}}
	var held []Decision
	for range 100 {
		held = append(held, c.send(Request{Op: Reserve, Namespace: "default", Entries: entries,
			Hold: &HoldTerms{TTL: hour}})[0].Decision)
	}
	c.most = 1
	before := c.state.Bytes()
	for i, d := range held {
		s := Request{Op: Settle, Namespace: "default", Entries: entries, Settlement: &Settlement{Action: ActionCommit,
			Target: Target{Hold: true, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}}
		if r := c.send(s)[0]; r.Err != nil || r.Decision.Limits[0].Used != uint64(len(held)-i-1) {
			t.Fatalf("hold %d: %+v", i, r)
		}
		if r := c.send(s)[0]; r.Err == nil || r.Err.Code != HoldEnded {
			t.Fatalf("hold %d, again: %+v", i, r)
		}
	}
	if after := c.state.Bytes(); after >= before {
		t.Errorf("%d bytes, before %d", after, before)
	}
	if r := c.send(Request{Op: Reserve, Namespace: "default", Entries: entries,
		Hold: &HoldTerms{TTL: hour}})[0]; r.Err == nil ||
		r.Err.Code != MemoryFull || r.Err.MaybeApplied() {
		t.Errorf("another hold: %+v", r)
	}
}
