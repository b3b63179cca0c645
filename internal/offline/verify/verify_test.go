package verify

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-io/stint/internal/sleep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// atChecks runs until the server has received n checks.
func (f *fake) atChecks(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			f.mu.Lock()
			seen := f.checks
			f.mu.Unlock()
			if seen >= n || !sleep.For(ctx, time.Millisecond) {
				return nil
			}
		}
	}
}

// runAgainst runs a plan in virtual time.
func runAgainst(t *testing.T, f *fake, change func(*Plan)) (result *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := Plan{Addresses: []string{"n1", "n2"}, Targets: []Target{{"good", f.quota, 0}}, Keys: 5,
			Workers: 8, IDs: 50, Deadline: 200 * time.Millisecond, Settle: 20 * time.Second, Seed: 1,
			dial: serve(t, f.handler())}
		if change != nil {
			change(&p)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var err error
		if result, err = Run(ctx, p, f.atChecks(700)); err != nil {
			t.Fatal(err)
		}
	})
	return result
}

// every reports true for every k-th check.
func every(k int) func(int) bool { return func(n int) bool { return n%k == 0 } }

// once reports true one time, when it is first asked about the 100th check or a later one.
func once() func(int) bool {
	struck := false
	return func(n int) bool {
		strikes := n >= 100 && !struck
		struck = struck || strikes
		return strikes
	}
}

// A correct server is called exact, even when answers get lost and calls are refused.
func TestARightServerIsExact(t *testing.T) {
	calm, rough := newFake(60), newFake(60)
	calm.copied = every(11)
	rough.lose, rough.refuse = every(17), every(13)
	for name, f := range map[string]*fake{"calm": calm, "rough": rough} {
		r := runAgainst(t, f, nil)
		if !r.Exact || r.Lost+r.Doubled != 0 {
			t.Errorf("%s: %v", name, r.Evidence)
		}
		if r.Admitted > 60 || r.KeysFull == 0 && name == "calm" || r.Keys < 5 || r.Operations < 600 ||
			r.Replayed < 100 || r.Shards != 3 {
			t.Errorf("%s is no run: %+v", name, r)
		}
		if (r.Unnumbered > 0) != (name == "calm") {
			t.Errorf("%s: %d units without a number", name, r.Unnumbered)
		}
		if name == "calm" && (r.Admitted != 60 || r.Missed+r.Retries+r.Unknown != 0) {
			t.Errorf("%s: %+v", name, r)
		}
		if name == "rough" && (r.Resolved+r.Unknown == 0 || r.Trouble["aborted"] == nil ||
			r.Trouble["unavailable"] == nil) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Clients spend from leases of one key after another if nothing comes back, and what they were answered is judged.
func TestLeasedKeysAreUsedUp(t *testing.T) {
	for _, lost := range []bool{false, true} {
		f := newFake(60)
		f.unspent = lost
		r := runAgainst(t, f, func(p *Plan) { p.Leases, p.Rate = []Lease{{"good", LeasedLimit{Quota: 60}}}, 150 })
		if r.Exact == lost || r.Findings[string(forgotten)] > 0 != lost {
			t.Errorf("units of leases are not counted: %v: %+v", lost, r)
		}
		if keys := f.leasedKeys(); keys < 3 {
			t.Errorf("%d keys were leased", keys)
		}
	}
}

// Keys may go to other shards. What is judged of a key goes on there.
func TestAMoveIsNoFault(t *testing.T) {
	f := newFake(60)
	f.moveAt, f.lose = 350, every(17)
	if r := runAgainst(t, f, nil); !r.Exact || r.Shards != 6 || r.Replayed < 100 {
		t.Errorf("%+v", r)
	}
}

// A server with one fault is caught, and the finding names the fault.
func TestAWrongServerIsCaught(t *testing.T) {
	for name, test := range map[string]struct {
		fault func(*fake)
		finds kind
	}{
		"an admission is counted twice":    {func(f *fake) { f.double = once() }, doubled},
		"an admission is not counted":      {func(f *fake) { f.again = once() }, doubled},
		"a copy is told of another's unit": {func(f *fake) { f.mistold = once() }, doubled},
		"one unit too many":                {func(f *fake) { f.overAdmit = true }, overAdmitted},
		"denied while there is room":       {func(f *fake) { f.denyEarly = once() }, wrongAnswer},
		"said to be full while there is room": {func(f *fake) { f.denyEarly, f.lieOnDeny = once(), true },
			underAdmitted},
		"ids are forgotten":                    {func(f *fake) { f.forget = every(3) }, forgotten},
		"counted and said not to be":           {func(f *fake) { f.lie = every(50) }, doubled},
		"lost and not remembered":              {func(f *fake) { f.lose, f.forget = every(20), every(20) }, doubled},
		"time goes backwards":                  {func(f *fake) { f.backwards = once() }, disordered},
		"an entry out of order":                {func(f *fake) { f.stale = once() }, disordered},
		"a move sets the time back":            {func(f *fake) { f.moveAt, f.behind = 350, true }, disordered},
		"two shards decide after a move":       {func(f *fake) { f.moveAt, f.forks = 350, true }, forgotten},
		"everything counted is forgotten once": {func(f *fake) { f.reset = once() }, forgotten},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(60)
			test.fault(f)
			r := runAgainst(t, f, func(p *Plan) { p.Workers = 4 })
			if r.Exact || r.Findings[string(test.finds)] == 0 {
				t.Errorf("exact %v, found %v, want %q: %v", r.Exact, r.Findings, test.finds, r.Evidence)
			}
		})
	}
}

// Denials may be repeated only where the policy allows it, and only for as long.
func TestARepeatedDenialIsNoOlderThanItMayBe(t *testing.T) {
	for name, test := range map[string]struct {
		repeat, stale time.Duration
		exact         bool
	}{
		"as long as it may":       {20 * time.Millisecond, 20 * time.Millisecond, true},
		"too long":                {time.Hour, time.Millisecond, false},
		"where it may not be":     {20 * time.Millisecond, 0, false},
		"it may be, and is never": {0, 20 * time.Millisecond, true},
	} {
		f := newFake(60)
		f.repeat = test.repeat
		r := runAgainst(t, f, func(p *Plan) { p.Targets[0].Stale, p.Keys, p.IDs = test.stale, 12, 0 })
		if r.Exact != test.exact || !r.Exact && r.Findings[string(disordered)] == 0 {
			t.Errorf("%s: exact %v, found %v: %v", name, r.Exact, r.Findings, r.Evidence)
		}
		may := test.repeat > 0 && test.stale > 0
		// a repetition that is too late need not be seen
		if repeated := r.Repeated > 0; repeated && !may || !repeated && may && test.exact {
			t.Errorf("%s: %d denials were seen to be repeated", name, r.Repeated)
		}
	}
}

// Without ids an outcome that was never learned stays unknown, and both outcomes are allowed.
func TestUnknownOutcomesWithoutIDs(t *testing.T) {
	f := newFake(60)
	f.lose = every(10)
	r := runAgainst(t, f, func(p *Plan) { p.IDs = 0 })
	if !r.Exact || r.Unknown == 0 || r.Missed != 0 && r.Missed < r.Unknown {
		t.Errorf("%+v", r)
	}
}

// A stall of the server is an outage of its shards, of that length.
func TestAnOutageIsMeasured(t *testing.T) {
	f := newFake(1000)
	f.stallAt, f.stall = 300, 400*time.Millisecond
	r := runAgainst(t, f, func(p *Plan) { p.Deadline = 2 * time.Second })
	worst := time.Duration(r.Unavailable.Worst) * time.Microsecond
	if !r.Exact || worst < 395*time.Millisecond || worst > 405*time.Millisecond || r.Unavailable.Count < 1 {
		t.Errorf("outages %+v, want one of 400 ms: %v", r.Unavailable, r.Evidence)
	}
	if latency := time.Duration(r.Latency.Worst) * time.Microsecond; latency < 395*time.Millisecond ||
		latency > 405*time.Millisecond {
		t.Errorf("latency %+v", r.Latency)
	}
}

// Operations without an answer in time are missed; those still unanswered after the faults are a finding.
func TestSilenceIsNotExact(t *testing.T) {
	f := newFake(60)
	f.refuse = func(n int) bool { return n > 400 }
	r := runAgainst(t, f, func(p *Plan) { p.Settle = 500 * time.Millisecond })
	if r.Exact || r.Missed == 0 || r.Findings[string(unsettled)] == 0 {
		t.Errorf("%+v", r)
	}
}

func TestThePaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(100_000)
		p := Plan{Addresses: []string{"n1"}, Targets: []Target{{"good", 100_000, 0}}, Rate: 500,
			Settle: 20 * time.Millisecond, Seed: 1, dial: serve(t, f.handler())}
		var took time.Duration
		began := time.Now()
		_, err := Run(t.Context(), p, func(ctx context.Context) error {
			for f.asked() < 400 && ctx.Err() == nil {
				sleep.For(ctx, time.Millisecond)
			}
			took = time.Since(began)
			return ctx.Err()
		})
		if want := 800 * time.Millisecond; err != nil || took < want-10*time.Millisecond ||
			took > want+50*time.Millisecond {
			t.Errorf("400 checks took %v, want %v: %v", took, want, err)
		}
	})
}

func TestTargets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(listPolicies))
	defer server.Close()
	for policy, want := range map[string]string{"good": "", "life": "", "flood": "", "epoch": "gives back",
		"short": "less than an hour", "two": "has 2 limits", "absent": "no policy", "leased": "has a lease"} {
		target, err := FindTarget(context.Background(), server.URL, nil, "", policy, false)
		if stale := policy == "flood"; target.Stale > 0 != stale {
			t.Errorf("%s: denials may be repeated for %v", policy, target.Stale)
		}
		if want == "" && (err != nil || target.Quota == 0) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v; want %q", policy, target, err, want)
		}
	}
}

// The policy of leases has one.
func TestLeasedTargets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(listPolicies))
	defer server.Close()
	if target, err := FindTarget(t.Context(), server.URL, nil, "", "leased", true); err != nil || target.Quota != 50 {
		t.Errorf("%+v, %v", target, err)
	}
	if _, err := FindTarget(t.Context(), server.URL, nil, "", "good", true); err == nil ||
		!strings.Contains(err.Error(), "has no lease") {
		t.Error(err)
	}
}
