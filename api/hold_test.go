package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// hold admits a request and holds its units until a minute after noon.
func hold(r shard.Request) shard.Result {
	result := allow(r)
	result.Decision.HoldExpires = noon + 60_000_000
	return result
}

// wireDecision is the part of a decision that these tests read.
type wireDecision struct {
	Allowed                    bool
	DecisionID, HoldID, Reason string
	HoldExpiresAt, Explanation string
	DeniedBy                   []string
	Headers                    map[string]string
	Positions                  []struct{ Shard int }
	Limits                     []struct{ Held, Granted, BlockedUntil string }
	RetryAfter                 string
	Replayed, ShadowDenied     bool
}

func (w *world) decision(procedure, body string) wireDecision {
	w.t.Helper()
	code, _, answer := w.post(procedure, body)
	var response struct{ Decision wireDecision }
	if err := json.Unmarshal([]byte(answer), &response); err != nil || code != 200 {
		w.t.Fatalf("%s: %d %s (%v)", procedure, code, answer, err)
	}
	return response.Decision
}

// last returns the request that the decider got last.
func (w *world) last() shard.Request {
	w.t.Helper()
	requests := w.decider.requests()
	if len(requests) == 0 {
		w.t.Fatal("the decider was not asked")
	}
	return requests[len(requests)-1]
}

func TestAReserveSaysHowItsHoldEnds(t *testing.T) {
	for fields, want := range map[string]shard.HoldTerms{
		`"ttl":"60s"`:                                {TTL: 60 * second},
		`"onExpire":0`:                               {TTL: 60 * second},
		`"ttl":"0.000001s"`:                          {TTL: 1},
		`"ttl":"2678400s"`:                           {TTL: shard.MaxHoldTTL},
		`"onExpire":"ON_EXPIRE_CANCEL"`:              {TTL: 60 * second, OnExpire: policy.OnExpireCancel},
		`"onExpire":"ON_EXPIRE_COMMIT"`:              {TTL: 60 * second, OnExpire: policy.OnExpireCommit},
		`"ttl":"5.5s","onExpire":"ON_EXPIRE_COMMIT"`: {TTL: 11 * second / 2, OnExpire: policy.OnExpireCommit},
	} {
		w := newWorld(t)
		w.post("LimitService/Reserve", reserving(fields))
		r := shard.Request{Op: shard.Reserve, Namespace: "default", Hold: &want,
			Entries: []shard.Entry{{Policy: "per-ip", Key: "203.0.113.7", Cost: 1}}}
		if got := w.last(); !reflect.DeepEqual(got, r) {
			t.Errorf("%s: asked %+v with %+v", fields, got, got.Hold)
		}
	}
}

// The story of a hold: its id comes back, names the held units, and ends the hold.
func TestAHoldIsSettledByItsID(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = hold
	d := w.decision("LimitService/Reserve", `{"check":{"namespace":"shop","idempotencyId":"r-1","entries":[`+
		`{"policy":"api","key":"user:42","cost":"7","tier":"researcher"},{"policy":"per-ip","key":"k"}]},"ttl":"60s"}`)
	if !d.Allowed || d.HoldID == "" || d.DecisionID != "" || d.HoldExpiresAt != "2026-11-21T12:01:00.250Z" {
		t.Fatalf("reserved: %+v", d)
	}
	entries := []shard.Entry{{Policy: "api", Key: "user:42", Cost: 7, Tier: "researcher"},
		{Policy: "per-ip", Key: "k", Cost: 1}}
	target := shard.Target{Hold: true, DecidedAt: noon, Index: 1,
		Position: shard.Position{Shard: 3, Epoch: 17, Seq: 99}}
	for _, c := range []struct {
		action string
		want   shard.Settlement
	}{
		{`"commit":{}`, shard.Settlement{Action: shard.ActionCommit}},
		{`"commit":{"actualCost":["0","9"]}`, shard.Settlement{Action: shard.ActionCommit, Actual: []uint64{0, 9}}},
		{`"commit":{"overage":"OVERAGE_CLAMP"}`, shard.Settlement{Action: shard.ActionCommit}},
		{`"commit":{"overage":"OVERAGE_DEBT"}`,
			shard.Settlement{Action: shard.ActionCommit, Overage: shard.OverageDebt}},
		{`"commit":{"overage":"OVERAGE_REJECT"}`,
			shard.Settlement{Action: shard.ActionCommit, Overage: shard.OverageReject}},
		{`"cancel":{}`, shard.Settlement{Action: shard.ActionCancel}},
		{`"extend":{"ttl":"90s"}`, shard.Settlement{Action: shard.ActionExtend, TTL: 90 * second}},
		{`"success":{}`, shard.Settlement{Action: shard.ActionSuccess}},
		{`"failed":{}`, shard.Settlement{Action: shard.ActionFailed}},
	} {
		w.decider.decide = allow
		got := w.decision("LimitService/Settle", `{"idempotencyId":"s-1","holdId":"`+d.HoldID+`",`+c.action+`}`)
		c.want.Target = target
		want := shard.Request{Op: shard.Settle, Namespace: "shop", ID: "s-1", Entries: entries, Settlement: &c.want}
		if asked := w.last(); !reflect.DeepEqual(asked, want) {
			t.Errorf("%s: asked %+v with %+v", c.action, asked, asked.Settlement)
		}
		if got.HoldID != "" || got.DecisionID != "" || got.HoldExpiresAt != "" {
			t.Errorf("%s: what has ended has an id: %+v", c.action, got)
		}
	}
}

func TestAHoldThatIsExtendedKeepsItsID(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = func(r shard.Request) shard.Result {
		result := hold(r)
		result.Decision.Limits[0].Held = 7
		return result
	}
	d := w.decision("LimitService/Settle", settling(aHold, `"extend":{"ttl":"60s"}`))
	if d.Limits[0].Held != "7" || d.HoldID != idOfTest(aHold) || d.HoldExpiresAt != "2026-11-21T12:01:00.250Z" {
		t.Errorf("extended: %+v", d)
	}
}

func TestADecisionIsRefundedByItsID(t *testing.T) {
	w := newWorld(t)
	id := w.decision("LimitService/Check", perIP).DecisionID
	w.decision("LimitService/Settle", `{"decisionId":"`+id+`","cancel":{}}`)
	want := shard.Request{Op: shard.Settle, Namespace: "default",
		Entries: counted(shard.Entry{Policy: "per-ip", Key: "203.0.113.7", Cost: 1}),
		Settlement: &shard.Settlement{Action: shard.ActionCancel, Target: shard.Target{DecidedAt: noon, Index: 1,
			Retention: policy.DefaultRetention,
			Position:  shard.Position{Shard: 3, Epoch: 17, Seq: 99}}}}
	if asked := w.last(); !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %+v with %+v", asked, asked.Settlement)
	}
}

// counted has the entries of an allowed check, as its settlement names them.
func counted(entries ...shard.Entry) []shard.Entry {
	r := shard.Request{Op: shard.Check, Entries: entries}
	d := allow(r).Decision
	return shard.Taken(&r, &d)
}

// A decision that counted nothing has no id, and the id of a partial decision names the granted units.
func TestWhatCanBeSettledHasAnID(t *testing.T) {
	w := newWorld(t)
	uncounted := func(r shard.Request) shard.Result {
		result := allow(r)
		result.Decision.Index = 0
		return result
	}
	counted := func(r shard.Request) shard.Result { // as with count_denied
		result := deny(r)
		result.Decision.Index = 1
		return result
	}
	for name, decide := range map[string]func(shard.Request) shard.Result{
		"denied": deny, "denied and counted": counted, "counted nothing": uncounted,
	} {
		w.decider.decide = decide
		if d := w.decision("LimitService/Check", perIP); d.DecisionID != "" {
			t.Errorf("%s: id %s", name, d.DecisionID)
		}
		if d := w.decision("LimitService/Reserve", reserving(`"ttl":"1s"`)); d.DecisionID != "" || d.HoldID != "" {
			t.Errorf("%s: ids %q, %q", name, d.DecisionID, d.HoldID)
		}
	}
	w.decider.decide = func(r shard.Request) shard.Result {
		result := allow(r)
		result.Decision.Limits[0].Granted = 3
		return result
	}
	d := w.decision("LimitService/Check", `{"mode":"MODE_PARTIAL","entries":[{"policy":"per-ip","key":"k",`+
		`"cost":"5"}]}`)
	r, err := testSealer.Open(d.DecisionID)
	if err != nil || r.Entries[0].Cost != 3 || d.Limits[0].Granted != "3" || w.last().Op != shard.Partial {
		t.Errorf("granted %+v, sealed %+v (%v)", d.Limits, r.Entries, err)
	}
	w.sealer, w.decider.decide = nil, allow
	if d := w.decision("LimitService/Check", perIP); !d.Allowed || d.DecisionID != "" {
		t.Errorf("sealed with nothing: %+v", d)
	}
	code, _, body := w.post("LimitService/Settle", settling(aHold, `"cancel":{}`))
	if e, _ := readError(t, body); code != http.StatusServiceUnavailable ||
		!strings.Contains(e.Message, "nothing was settled") {
		t.Errorf("settled with nothing: %d %s", code, body)
	}
}

// An operation on several shards is settled by its own id, wherever its parts were decided.
func TestAnOperationIsSettledByItsOwnID(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = func(r shard.Request) shard.Result {
		result := hold(r)
		result.Decision.Operation = &shard.Verdict{ID: "op-1", Home: 3, State: shard.OperationHeld,
			Legs: []shard.Leg{{Slot: 5,
				Decision: shard.Decision{Position: shard.Position{Shard: 5, Epoch: 4, Seq: 2}}}}}
		return result
	}
	d := w.decision("LimitService/Reserve", reserving(`"ttl":"60s"`))
	if len(d.Positions) != 2 || d.Positions[0].Shard != 3 || d.Positions[1].Shard != 5 {
		t.Errorf("decided at %+v", d.Positions)
	}
	r, err := testSealer.Open(d.HoldID)
	if want := (shard.Target{Hold: true, DecidedAt: noon, Operation: "op-1", Home: 3}); err != nil ||
		r.Settlement.Target != want {
		t.Errorf("sealed %+v (%v)", r.Settlement, err)
	}
}

func TestSettlementsAreObserved(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = hold
	w.post("LimitService/Reserve", reserving(`"ttl":"60s"`))
	w.decider.decide = allow
	for _, action := range []string{`"commit":{}`, `"cancel":{}`, `"extend":{"ttl":"1s"}`, `"success":{}`,
		`"failed":{}`} {
		w.post("LimitService/Settle", settling(aDecisionOrHold(action), action))
	}
	w.post("LimitService/Check", `{"mode":"MODE_COUNT","entries":[{"policy":"per-ip","key":"k"}]}`)
	w.post("LimitService/Check", `{"mode":"MODE_PARTIAL","entries":[{"policy":"per-ip","key":"k"}]}`)
	w.post("LimitService/Check", entry(`"policy":"anything","key":"k","limits":[{"name":"x","quota":1,"lifetime":{}}]`))
	w.decider.decide = lockOut
	w.post("LimitService/Check", perIP)
	want := []string{"per-ip reserved", "per-ip committed", "per-ip cancelled", "api extended", "per-ip extended",
		"per-ip success", "per-ip failed", "per-ip counted", "per-ip allowed", "inline allowed", "per-ip locked_out"}
	var got []string
	for _, line := range w.observer.seen() {
		if decision, ok := strings.CutPrefix(line, "decision "); ok {
			got = append(got, decision)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("observed %q", got)
	}
}

// aDecisionOrHold is a decision, except for actions that only a hold allows.
func aDecisionOrHold(action string) shard.Target {
	if strings.HasPrefix(action, `"extend"`) {
		return aHold
	}
	return aDecision
}

// lockOut denies every request because the key is blocked for 30 s, although the limits have room.
func lockOut(r shard.Request) shard.Result {
	result := allow(r)
	d := &result.Decision
	d.Allowed, d.Index, d.RetryAfter = false, 0, 30*second
	for i := range d.Limits {
		s := &d.Limits[i]
		s.LockoutLevel, s.BlockedUntil, s.Blocked = 2, noon+limit.Time(30*second), true
	}
	return result
}

func TestABlockByHandIsToldByItsName(t *testing.T) {
	w := newWorld(t)
	for _, byHand := range []shard.LimitStatus{{ByHand: true, LockoutLevel: 2}, {}} {
		w.decider.decide = func(r shard.Request) shard.Result {
			result := lockOut(r)
			for i := range result.Decision.Limits {
				s := &result.Decision.Limits[i]
				s.ByHand, s.LockoutLevel = byHand.ByHand, byHand.LockoutLevel
			}
			return result
		}
		if d := w.decision("LimitService/Check", perIP); !slices.Equal(d.DeniedBy, []string{"per-ip/block"}) {
			t.Errorf("%+v: denied by %v", byHand, d.DeniedBy)
		}
	}
}

func TestALockoutIsTold(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = lockOut
	d := w.decision("LimitService/Check", `{"explain":true,"entries":[{"policy":"api","key":"user:42"},`+
		`{"policy":"per-ip","key":"k"}]}`)
	if !slices.Equal(d.DeniedBy, []string{"api/lockout", "per-ip/lockout"}) {
		t.Errorf("denied by %q", d.DeniedBy)
	}
	if d.Reason != "Too many calls. See example.org/limits." {
		t.Errorf("reason %q", d.Reason)
	}
	if d.RetryAfter != "30s" || d.Limits[0].BlockedUntil != "2026-11-21T12:00:30.250Z" {
		t.Errorf("retry after %s, blocked until %s", d.RetryAfter, d.Limits[0].BlockedUntil)
	}
	for name, want := range map[string]string{"Retry-After": "30", "X-RateLimit-Remaining": "0",
		"X-RateLimit-Reset": "1795262431", "RateLimit": `"api/minute";r=0;t=30`} {
		if d.Headers[name] != want {
			t.Errorf("%s: %q, want %q", name, d.Headers[name], want)
		}
	}
	want := `Denied, and nothing was counted. Next admitted at 2026-11-21T12:00:30.25Z, in 30s.
api/minute of user:42: 1 of 100 used, 99 left; allows; at rest again at 2026-11-21T12:01:00Z, in 59.75s.
api/lockout of user:42: level 2, blocked until 2026-11-21T12:00:30.25Z, for 30s.
per-ip/minute of k: 1 of 100 used, 99 left; allows; at rest again at 2026-11-21T12:01:00Z, in 59.75s.
per-ip/lockout of k: level 2, blocked until 2026-11-21T12:00:30.25Z, for 30s.`
	if d.Explanation != want {
		t.Errorf("explanation:\n%s", d.Explanation)
	}
}

// Two limits of one key: one of them denies, and the key is blocked.
func TestLimitsAndLockoutsDenyTogether(t *testing.T) {
	limits := []shard.LimitStatus{
		limitStatus("login", "account", 5, verdictOf(false, 5, 0, 900*second, 60*second)),
		limitStatus("login", "day", 100, verdictOf(true, 5, 95, 900*second, 0)),
	}
	for i := range limits {
		limits[i].Blocked, limits[i].BlockedUntil, limits[i].LockoutLevel = true, noon+5, 1
	}
	d := &shard.Decision{DecidedAt: noon, RetryAfter: 60 * second, Limits: limits}
	if got := decisions.DeniedBy(d); !slices.Equal(got, []string{"login/account", "login/lockout"}) {
		t.Errorf("denied by %q", got)
	}
	if wait, _ := untilMore(d, &limits[0]); wait != 60*second {
		t.Errorf("the longer wait is %v", wait)
	}
	if wait, _ := untilMore(d, &limits[1]); wait != 5 {
		t.Errorf("a blocked limit with room waits %v", wait)
	}
	if d.Allowed = true; decisions.DeniedBy(d) != nil {
		t.Error("what is only counted is denied by nobody")
	}
}

func TestExplanations(t *testing.T) {
	zone, err := limit.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	cycle := &limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 1, Zone: zone}
	quarter := new(*cycle)
	quarter.Every = 3
	e := shard.Entry{Policy: "budget", Key: "user:42", Cost: 5, Limits: []policy.Limit{
		{Name: "month", Limit: limit.Limit{Algorithm: limit.Calendar, Quota: 100, Cycle: cycle}},
		{Name: "quarter", Limit: limit.Limit{Algorithm: limit.Calendar, Quota: 300, Cycle: quarter}},
		{Name: "open", Limit: limit.Limit{Algorithm: limit.Concurrency, Quota: 4}}}}
	month := limitStatus("budget", "month", 100, verdictOf(true, 30, 70, 3600*second, 0))
	month.Held = 10
	quarterly := limitStatus("budget", "quarter", 300, verdictOf(true, 30, 270, 3600*second, 0))
	open := limitStatus("budget", "open", 4, verdictOf(true, 1, 3, 0, 0))
	granted := month
	granted.Granted = 3
	full := limitStatus("budget", "few", 5, verdictOf(false, 5, 0, 900*second, 899*second+1))
	large := limitStatus("budget", "few", 5, verdictOf(false, 3, 2, 900*second, 12*3600*second))
	soft := limitStatus("budget", "few", 5, verdictOf(false, 5, 0, 900*second, limit.Never))
	soft.Soft = true
	blocked := open
	blocked.Blocked, blocked.BlockedUntil = true, noon+30e6
	for name, c := range map[string]struct {
		op   shard.Op
		d    shard.Decision
		want string
	}{
		"a hold": {shard.Reserve, shard.Decision{Allowed: true, HoldExpires: noon + 60e6,
			Limits: []shard.LimitStatus{month, quarterly, open}},
			"Allowed, and held until 2026-11-21T12:01:00.25Z, for 1m.\n" +
				"budget/month of user:42: 30 of 100 used, 10 of them held, 70 left; allows; " +
				"the month in Europe/Berlin ends at 2026-11-21T13:00:00.25Z, in 1h.\n" +
				"budget/quarter of user:42: 30 of 300 used, 270 left; allows; " +
				"the period of 3 months in Europe/Berlin ends at 2026-11-21T13:00:00.25Z, in 1h.\n" +
				"budget/open of user:42: 1 of 4 used, 3 left; allows; held units come back when they are settled."},
		"counted": {shard.Count, shard.Decision{Allowed: true, Limits: []shard.LimitStatus{open}},
			"Counted, whatever the limits say.\n" +
				"budget/open of user:42: 1 of 4 used, 3 left; held units come back when they are settled."},
		"in part": {shard.Partial, shard.Decision{Allowed: true, Limits: []shard.LimitStatus{granted}},
			"Allowed, as far as there is room.\n" +
				"budget/month of user:42: 30 of 100 used, 10 of them held, 70 left; allows; 3 taken; " +
				"the month in Europe/Berlin ends at 2026-11-21T13:00:00.25Z, in 1h."},
		"a look": {shard.Peek, shard.Decision{RetryAfter: 899*second + 1, Limits: []shard.LimitStatus{full}},
			"Would be denied until 12:15:00Z (in 15m): 5 of 5 used.\n" +
				"budget/few of user:42: 5 of 5 used, 0 left; denies; next admitted at 2026-11-21T12:14:59.250001Z, " +
				"in 14m59.000001s."},
		"a look at what would be admitted": {shard.Peek,
			shard.Decision{Allowed: true, Limits: []shard.LimitStatus{open}}, "Would be allowed.\n" +
				"budget/open of user:42: 1 of 4 used, 3 left; allows; held units come back when they are settled."},
		"a look that shadows spare": {shard.Peek, shard.Decision{Allowed: true, ShadowDenied: true},
			"Would be allowed, as the limits that would deny are shadowed."},
		"a look until tomorrow": {shard.Peek, shard.Decision{RetryAfter: 12 * 3600 * second,
			Limits: []shard.LimitStatus{large}},
			"Would be denied until 2026-11-22T00:00:01Z (in 12h): 3 of 5 used, and the rest is too little.\n" +
				"budget/few of user:42: 3 of 5 used, 2 left; denies; " +
				"next admitted at 2026-11-22T00:00:00.25Z, in 12h."},
		"a look at a blocked key": {shard.Peek,
			shard.Decision{RetryAfter: 30 * second, Limits: []shard.LimitStatus{blocked}},
			"Would be denied until 12:00:31Z (in 30s): the key is blocked.\n" +
				"budget/open of user:42: 1 of 4 used, 3 left; allows; held units come back when they are settled.\n" +
				"budget/block of user:42: blocked by hand until 2026-11-21T12:00:30.25Z, for 30s."},
		"a look at a challenge": {shard.Peek, shard.Decision{RetryAfter: limit.Never,
			Limits: []shard.LimitStatus{soft}},
			"Would be challenged, and no wait helps: 5 of 5 used.\n" +
				"budget/few of user:42: 5 of 5 used, 0 left; asks for a challenge; no wait helps."},
		"denied and counted": {shard.Check, shard.Decision{Index: 1, RetryAfter: limit.Never},
			"Denied, and counted all the same, as the policy says. No wait helps."},
	} {
		c.d.DecidedAt = noon
		if got := explainDecision(testPolicies(), &shard.Request{Op: c.op, Entries: []shard.Entry{e}},
			&c.d); got != c.want {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	free := open
	free.LockoutLevel = 3
	shadowed := free
	shadowed.BlockedUntil = noon + 1
	byHand := open
	byHand.BlockedUntil, byHand.Blocked = noon+1, true
	state := shard.Decision{DecidedAt: noon, Limits: []shard.LimitStatus{free}}
	both := byHand
	both.LockoutLevel, both.ByHand = 3, true
	for _, c := range []struct {
		s    shard.LimitStatus
		want string
	}{{free, "budget/lockout of user:42: level 3, not blocked."},
		{shadowed, "budget/lockout of user:42: level 3, blocked until 2026-11-21T12:00:00.250001Z, for 1us; " +
			"would deny, but is shadowed."},
		{byHand, "budget/block of user:42: blocked by hand until 2026-11-21T12:00:00.250001Z, for 1us."},
		{both, "budget/block of user:42: level 3, blocked by hand until 2026-11-21T12:00:00.250001Z, for 1us."}} {
		state.Limits[0] = c.s
		got := explainState(testPolicies(), &shard.Request{Op: shard.Get, Entries: []shard.Entry{e}}, &state)
		if !strings.HasSuffix(got, "\n"+c.want) {
			t.Errorf("%s", got)
		}
	}
}

// Limits that a request brings along are not those of a policy with the same name.
func TestInlineLimitsHaveNothingOfAPolicy(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = deny
	d := w.decision("LimitService/Check", entry(`"policy":"api","key":"k","limits":[{"name":"minute","quota":"100",`+
		`"unit":"tokens","shadow":true,"fixedWindow":{"period":"60s"}}]`))
	if len(d.Headers) != 1 || d.Headers["Retry-After"] == "" || d.Reason != "" {
		t.Errorf("headers %v, reason %q", d.Headers, d.Reason)
	}
	want := []policy.Limit{{Name: "minute", Unit: "tokens", Shadow: true,
		Limit: limit.Limit{Algorithm: limit.FixedWindow, Quota: 100, Period: 60 * second}}}
	if e := w.last().Entries[0]; !reflect.DeepEqual(e.Limits, want) || e.Policy != "api" {
		t.Errorf("asked %+v", e)
	}
	w.post("LimitService/Check", entry(`"key":"k","limits":[{"name":"x","quota":1,"lifetime":{}}]`))
	if e := w.last().Entries[0]; e.Policy != "" || len(e.Limits) != 1 {
		t.Errorf("without a name: asked %+v", e)
	}
	code, _, body := w.post("LimitService/Check",
		entry(`"key":"k","limits":[{"name":"x","quota":1,"lifetime":{},"onRecovery":"ON_RECOVERY_KEEP"}]`))
	if code != 400 || !strings.Contains(body, "entries[0].limits[0].on_recovery: is for a limit of a policy") {
		t.Errorf("with on_recovery: %d %s", code, body)
	}
}

// The weight of a call is the room that its answer may take.
func TestHoldsAndAuditsWeighAsMuchAsTheirAnswers(t *testing.T) {
	thirtyTwo := &stintv1.CheckRequest{Entries: make([]*stintv1.Entry, 32)}
	for name, c := range map[string]struct {
		message any
		want    int64
	}{
		"a reserve":            {&stintv1.ReserveRequest{Check: thirtyTwo}, 32},
		"a reserve of nothing": {&stintv1.ReserveRequest{}, 1},
		"an audit":             {&stintv1.AuditRequest{}, 250},
		"a settle of nothing":  {&stintv1.SettleRequest{}, 1},
		"a settle of as much as there can be": {&stintv1.SettleRequest{
			Target: &stintv1.SettleRequest_HoldId{HoldId: strings.Repeat("x", 1000)}}, 32},
	} {
		if got := weigh(c.message); got != c.want {
			t.Errorf("%s weighs %d, want %d", name, got, c.want)
		}
	}
}
