package api

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const second = limit.Span(1_000_000)

func limitStatus(policy, name string, quota uint64, v limit.Verdict) shard.LimitStatus {
	return shard.LimitStatus{Policy: policy, Limit: name, Key: "user:42", Quota: quota, Verdict: v}
}

func verdictOf(allowed bool, used, remaining uint64, resetIn, retryAfter limit.Span) limit.Verdict {
	v := limit.Verdict{Allowed: allowed, Used: used, Remaining: remaining, RetryAfter: retryAfter}
	if resetIn > 0 {
		v.ResetAt = noon + limit.Time(resetIn)
	}
	return v
}

// The headers as clients of other limiters read them. noon is Unix second 1795262400.25.
func TestHeaders(t *testing.T) {
	burst := limitStatus("api", "burst", 5, verdictOf(true, 1, 4, second/2, 0))
	daily := limitStatus("api", "daily", 200, verdictOf(true, 10, 190, 86400*second, 0))
	burstDenies := limitStatus("api", "burst", 5, verdictOf(false, 5, 0, 5*second/2, second/2))
	dailyDenies := limitStatus("api", "daily", 200, verdictOf(false, 200, 0, 86400*second, 3600*second+1))
	never := limitStatus("api", "burst", 5, verdictOf(false, 0, 5, 0, limit.Never))
	shadowed := dailyDenies
	shadowed.Shadow = true
	unlimited := limitStatus("api", "daily", 0, verdictOf(true, 12, 0, 0, 0))
	unlimited.Unlimited = true
	plain := limitStatus("per-ip", "minute", 100, verdictOf(true, 1, 99, 60*second, 0))
	plainDenies := limitStatus("per-ip", "minute", 100, verdictOf(false, 100, 0, 60*second, 59*second+1))
	plainNever := limitStatus("per-ip", "minute", 100, verdictOf(false, 0, 100, 0, limit.Never))
	for _, c := range []struct {
		name       string
		limits     []shard.LimitStatus
		retryAfter limit.Span
		want       map[string]string
	}{
		{"a policy without styles", []shard.LimitStatus{plain}, 0, nil},
		{"a policy without styles denies", []shard.LimitStatus{plainDenies}, 59*second + 1,
			map[string]string{"Retry-After": "60"}},
		{"a policy without styles denies for ever", []shard.LimitStatus{plainNever}, limit.Never, nil},
		{"allowed", []shard.LimitStatus{burst, daily}, 0, map[string]string{
			"RateLimit-Policy":  `"burst";q=5;w=3, "daily";q=200;w=86400`,
			"RateLimit":         `"burst";r=4;t=1, "daily";r=190;t=86400`,
			"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "4", "X-RateLimit-Reset": "1795262401",
			"X-Quota-Used": "10", "X-Quota-Limit": "200", "X-Quota-Reset": "1795348801",
		}},
		{"burst denies", []shard.LimitStatus{burstDenies, daily}, second / 2, map[string]string{
			"Retry-After":       "1",
			"RateLimit-Policy":  `"burst";q=5;w=3, "daily";q=200;w=86400`,
			"RateLimit":         `"burst";r=0;t=1, "daily";r=190;t=86400`,
			"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795262401",
			"X-Quota-Used": "10", "X-Quota-Limit": "200", "X-Quota-Reset": "1795348801",
		}},
		{"daily denies: the second at which the oldest bucket leaves",
			[]shard.LimitStatus{burst, dailyDenies}, 3600*second + 1, map[string]string{
				"Retry-After":       "3601",
				"RateLimit-Policy":  `"burst";q=5;w=3, "daily";q=200;w=86400`,
				"RateLimit":         `"burst";r=4;t=1, "daily";r=0;t=3601`,
				"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795266001",
				"X-Quota-Used": "200", "X-Quota-Limit": "200", "X-Quota-Reset": "1795266001",
			}},
		{"both deny: the longer wait is shown", []shard.LimitStatus{burstDenies, dailyDenies}, 3600*second + 1,
			map[string]string{
				"Retry-After":       "3601",
				"RateLimit-Policy":  `"burst";q=5;w=3, "daily";q=200;w=86400`,
				"RateLimit":         `"burst";r=0;t=1, "daily";r=0;t=3601`,
				"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795266001",
				"X-Quota-Used": "200", "X-Quota-Limit": "200", "X-Quota-Reset": "1795266001",
			}},
		{"no wait helps", []shard.LimitStatus{never}, limit.Never, map[string]string{
			"RateLimit-Policy":  `"burst";q=5;w=3`,
			"RateLimit":         `"burst";r=5`,
			"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "5",
		}},
		{"shadowed and unlimited limits are not shown", []shard.LimitStatus{shadowed, unlimited}, 0,
			map[string]string{}},
	} {
		d := &shard.Decision{Allowed: c.retryAfter == 0, RetryAfter: c.retryAfter, DecidedAt: noon, Limits: c.limits}
		r := &shard.Request{Entries: []shard.Entry{{Policy: c.limits[0].Policy, Key: "user:42"}}}
		if got := headersOf(testPolicies(), r, d); !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s:\ngot  %v\nwant %v", c.name, got, c.want)
		}
	}
}

// stylesOf is a policy "p" with the styles and limits of a policies file.
func stylesOf(t *testing.T, styles, limits string) *policy.Set {
	t.Helper()
	set, err := policy.Parse("", fmt.Appendf(nil, "policies: {p: {headers: [%s], limits: [%s]}}", styles, limits))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The forms that clients of other services read, allowed and denied.
func TestHeadersInTheFormThatThePolicyChose(t *testing.T) {
	const limits = "{name: minute, quota: 100, fixed_window: {period: 60s}}, {name: month, quota: 9000, " +
		"calendar: {unit: month}}"
	minute := limitStatus("p", "minute", 100, verdictOf(true, 41, 59, 30*second, 0))
	minuteDenies := limitStatus("p", "minute", 100, verdictOf(false, 100, 0, 30*second, 29*second+1))
	month := limitStatus("p", "month", 9000, verdictOf(true, 41, 8959, 3600*second, 0))
	for _, c := range []struct {
		styles string
		first  shard.LimitStatus
		want   map[string]string
	}{
		{"x-ratelimit", minute, map[string]string{
			"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "59", "X-RateLimit-Reset": "1795262431"}},
		{"x-ratelimit-delta", minute, map[string]string{
			"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "59", "X-RateLimit-Reset": "30"}},
		{"x-ratelimit-delta", minuteDenies, map[string]string{"Retry-After": "30",
			"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}},
		{"x-ratelimit-github", minute, map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "59",
			"X-RateLimit-Reset": "1795262431", "X-RateLimit-Used": "41", "X-RateLimit-Resource": "p"}},
		{"x-quota: month", minute, map[string]string{
			"X-Quota-Used": "41", "X-Quota-Limit": "9000", "X-Quota-Reset": "1795266001"}},
		{"x-quota: minute, x-ratelimit", minuteDenies, map[string]string{"Retry-After": "30",
			"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795262430",
			"X-Quota-Used": "100", "X-Quota-Limit": "100", "X-Quota-Reset": "1795262430"}},
	} {
		d := &shard.Decision{Allowed: c.first.Allowed, RetryAfter: c.first.RetryAfter, DecidedAt: noon,
			Limits: []shard.LimitStatus{c.first, month}}
		r := &shard.Request{Entries: []shard.Entry{{Policy: "p", Key: "user:42"}}}
		if got := headersOf(stylesOf(t, c.styles, limits), r, d); !maps.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %v\nwant %v", c.styles, got, c.want)
		}
	}
}

// The draft's t is when more units come, which for a bucket is its next one, and qu names the unit where it has a word.
func TestTheDraftSaysWhenMoreComesAndOfWhat(t *testing.T) {
	const limits = "{name: bucket, quota: 60, token_bucket: {refill: 1, per: 10s}}, {name: gcra, quota: 60, " +
		"gcra: {rate: 1, per: 10s}}, {name: volume, unit: bytes, quota: 5000, fixed_window: {period: 60s}}, " +
		"{name: open, quota: 3, concurrency: {}}, {name: words, unit: tokens, quota: 7, lifetime: {}}"
	d := &shard.Decision{Allowed: true, DecidedAt: noon, Limits: []shard.LimitStatus{
		limitStatus("p", "bucket", 60, verdictOf(true, 20, 40, 193*second, 0)), // 19 units of 10 s after the next one
		limitStatus("p", "gcra", 60, verdictOf(true, 60, 0, 600*second, 0)),
		limitStatus("p", "volume", 5000, verdictOf(true, 20, 4980, 59*second, 0)),
		limitStatus("p", "open", 3, verdictOf(true, 1, 2, 0, 0)),
		limitStatus("p", "words", 7, verdictOf(true, 1, 6, 0, 0)),
	}}
	r := &shard.Request{Entries: []shard.Entry{{Policy: "p", Key: "user:42"}}}
	got := headersOf(stylesOf(t, "ietf", limits), r, d)
	if want := `"bucket";r=40;t=3, "gcra";r=0;t=10, "volume";r=4980;t=59, "open";r=2,` +
		` "words";r=6`; got["RateLimit"] != want {
		t.Errorf("RateLimit: got %s, want %s", got["RateLimit"], want)
	}
	if want := `"bucket";q=60;w=600, "gcra";q=60;w=600, "volume";q=5000;qu="content-bytes";w=60,` +
		` "open";q=3;qu="concurrent-requests", ` +
		`"words";q=7`; got["RateLimit-Policy"] != want {
		t.Errorf("RateLimit-Policy: got %s, want %s", got["RateLimit-Policy"], want)
	}
}

func TestHeadersOfATierAndOfTwoEntries(t *testing.T) {
	d := &shard.Decision{Allowed: true, DecidedAt: noon, Limits: []shard.LimitStatus{
		limitStatus("api", "burst", 30, verdictOf(true, 1, 29, second/2, 0)),
		limitStatus("per-ip", "minute", 100, verdictOf(true, 1, 99, 60*second, 0)),
	}}
	r := &shard.Request{Entries: []shard.Entry{
		{Policy: "api", Key: "user:42", Tier: "researcher"}, {Policy: "per-ip", Key: "user:42"}}}
	got := headersOf(testPolicies(), r, d)
	if want := `"api/burst";q=30;w=15`; got["RateLimit-Policy"] != want {
		t.Errorf("RateLimit-Policy: got %s, want %s", got["RateLimit-Policy"], want)
	}
	if want := `"api/burst";r=29;t=1`; got["RateLimit"] != want {
		t.Errorf("RateLimit: got %s, want %s", got["RateLimit"], want)
	}
}

// The tier of a key's override has the window and the wait, too, though the request does not name it. Of a rate that
// the override has of its own neither is told: the answer does not have it.
func TestHeadersOfAKeyWithAnOverride(t *testing.T) {
	set, err := policy.Parse("", []byte("policies: {p: {headers: [ietf], tiers: {gold: {b: {quota: 1000, refill: 1000}, "+
		"g: {quota: 3, rate: 1}}}, limits: [{name: b, quota: 10, token_bucket: {refill: 10, per: 60s}}, "+
		"{name: g, quota: 30, gcra: {rate: 10, per: 60s}}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	r := &shard.Request{Entries: []shard.Entry{{Policy: "p", Key: "user:42"}}}
	for _, c := range []struct {
		bucket, gcra shard.LimitStatus
		rules, state string
		unit         rlsv3.RateLimitResponse_RateLimit_Unit // that Envoy shows of the bucket
	}{
		{limitStatus("p", "b", 10, verdictOf(true, 2, 8, 12*second, 0)),
			limitStatus("p", "g", 30, verdictOf(true, 2, 28, 11*second, 0)),
			`"b";q=10;w=60, "g";q=30;w=180`, `"b";r=8;t=6, "g";r=28;t=5`,
			rlsv3.RateLimitResponse_RateLimit_MINUTE},
		{limitStatus("p", "b", 1000, verdictOf(true, 500, 500, 30*second, 0)),
			limitStatus("p", "g", 3, verdictOf(true, 2, 1, 110*second, 0)),
			`"b";q=1000;w=60, "g";q=3;w=180`, `"b";r=500;t=1, "g";r=1;t=50`,
			rlsv3.RateLimitResponse_RateLimit_MINUTE},
		{limitStatus("p", "b", 1000, verdictOf(true, 2, 998, 12*second, 0)), // refill as of no tier
			limitStatus("p", "g", 7, verdictOf(true, 2, 5, 14*second, 0)),
			`"b";q=1000, "g";q=7`, `"b";r=998;t=12, "g";r=5;t=14`,
			rlsv3.RateLimitResponse_RateLimit_UNKNOWN},
	} {
		d := &shard.Decision{Allowed: true, DecidedAt: noon, Limits: []shard.LimitStatus{c.bucket, c.gcra}}
		got, shown := headersOf(set, r, d), &rlsv3.RateLimitResponse_DescriptorStatus{}
		(&envoyDescriptor{}).show(shown, &envoyDecided{policies: set, r: r, d: d}, &c.bucket)
		if unit := shown.CurrentLimit.Unit; unit != c.unit || shown.CurrentLimit.UnitMultiplier != nil {
			t.Errorf("Envoy shows %v, want %v", shown.CurrentLimit, c.unit)
		}
		if got["RateLimit-Policy"] != c.rules || got["RateLimit"] != c.state {
			t.Errorf("got %s and %s, want %s and %s", got["RateLimit-Policy"], got["RateLimit"], c.rules, c.state)
		}
	}
}

// A limit's own reason precedes its policy's; a block has the policy's.
func TestTheReasonIsThatOfTheLimitThatDenied(t *testing.T) {
	rule := func(name, reason string) policy.Limit {
		return policy.Limit{Name: name, Reason: reason, Limit: limit.Limit{Algorithm: limit.Lifetime}}
	}
	policies := policy.NewSet([]*policy.Policy{{Name: "p", Reason: "the policy's",
		Limits: []policy.Limit{rule("own", "its own"), rule("none", "")}}})
	status := func(name string, allowed, blocked bool) shard.LimitStatus {
		return shard.LimitStatus{Policy: "p", Limit: name, Key: "k", Blocked: blocked,
			Verdict: limit.Verdict{Allowed: allowed}}
	}
	r := shard.Request{Entries: []shard.Entry{{Policy: "p", Key: "k"}}}
	inline := shard.Request{Entries: []shard.Entry{{Policy: "p", Key: "k",
		Limits: []policy.Limit{rule("own", "brought along")}}}}
	for want, c := range map[string]struct {
		r        *shard.Request
		statuses []shard.LimitStatus
	}{
		"its own":       {&r, []shard.LimitStatus{status("own", false, false), status("none", false, false)}},
		"the policy's":  {&r, []shard.LimitStatus{status("own", true, true), status("none", true, true)}},
		"brought along": {&inline, []shard.LimitStatus{status("own", false, false)}},
	} {
		if got := decisions.Reason(policies, c.r, &shard.Decision{Limits: c.statuses}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := decisions.Reason(policies, &r,
		&shard.Decision{Limits: []shard.LimitStatus{status("own", true, false), status("none", false, false)}}); got !=
		"the policy's" {
		t.Errorf("of a limit that has none: %q", got)
	}
}

func TestReasonAndDeniedBy(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = func(r shard.Request) shard.Result {
		shadowed := limitStatus("api", "daily", 200, verdictOf(false, 200, 0, second, second))
		shadowed.Shadow = true
		return shard.Result{Decision: shard.Decision{DecidedAt: noon, RetryAfter: limit.Never,
			Limits: []shard.LimitStatus{
				limitStatus("api", "burst", 5, verdictOf(false, 5, 0, second, limit.Never)), shadowed}}}
	}
	_, _, body := w.post("LimitService/Check", `{"explain":true,"entries":[{"policy":"api","key":"user:42"}]}`)
	body = compact(t, body)
	for _, want := range []string{
		`"deniedBy":["api/burst"]`,
		`"reason":"Too many calls. See example.org/limits."`,
		`"explanation":"Denied, and nothing was counted. No wait helps.\n` +
			`api/burst of user:42: 5 of 5 used, 0 left; denies; no wait helps.\n` +
			`api/daily of user:42: 200 of 200 used, 0 left; would deny, but is shadowed; ` +
			`next admitted at 2026-11-21T12:00:01.25Z, in 1s."`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("missing %s\nin %s", want, body)
		}
	}
	if strings.Count(body, "retryAfter") != 1 {
		t.Errorf("a wait that never ends is absent: %s", body)
	}
}

// Instants and waits that JSON cannot express must not break an answer.
func TestFarFuture(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = func(shard.Request) shard.Result {
		far := limit.Verdict{ResetAt: limit.Forever - 1, RetryAfter: limit.Span(limit.Forever - noon - 1)}
		return shard.Result{Decision: shard.Decision{DecidedAt: noon, RetryAfter: far.RetryAfter,
			Limits: []shard.LimitStatus{limitStatus("api", "burst", 5, far)}}}
	}
	code, _, body := w.post("LimitService/Check", `{"explain":true,"entries":[{"policy":"api","key":"user:42"}]}`)
	if code != 200 || strings.Contains(body, "resetAt") || strings.Contains(body, `"retryAfter"`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestDurationsAreExact(t *testing.T) {
	for span, want := range map[limit.Span]string{1: "0s 1000ns", 1_500_000: "1s 500000000ns",
		59_750_001: "59s 750001000ns"} {
		if d := waitOf(span); fmt.Sprintf("%ds %dns", d.Seconds, d.Nanos) != want {
			t.Errorf("%d: %v", span, d)
		}
	}
	for span, want := range map[limit.Span]int64{1: 1, 999_999: 1, 1_000_000: 1, 1_000_001: 2} {
		if got := seconds(span); got != want {
			t.Errorf("%d us are %d s", span, got)
		}
	}
}

// A repeated denial names the same instants as at first, and waits that are shorter by its age. It says that it was
// repeated.
func TestARepeatedDenialNamesTheSameInstants(t *testing.T) {
	r := &shard.Request{Op: shard.Check, Entries: []shard.Entry{{Policy: "api", Key: "user:42", Cost: 1}}}
	denial := func(age limit.Span) *shard.Decision {
		wait := 90*second - age
		return &shard.Decision{DecidedAt: noon, Age: age, RetryAfter: wait, Limits: []shard.LimitStatus{
			limitStatus("api", "burst", 5, verdictOf(false, 5, 0, 120*second, wait)),
			limitStatus("api", "daily", 200, verdictOf(true, 10, 190, 3600*second, 0))}}
	}
	first, later := headersOf(testPolicies(), r, denial(0)), headersOf(testPolicies(), r, denial(2*second))
	for _, instant := range []string{"X-RateLimit-Reset", "X-Quota-Reset"} {
		if first[instant] == "" || later[instant] != first[instant] {
			t.Errorf("%s is %s, and was %s", instant, later[instant], first[instant])
		}
	}
	if first["Retry-After"] != "90" || later["Retry-After"] != "88" ||
		later["RateLimit"] != `"burst";r=0;t=88, "daily";r=190;t=3598` {
		t.Errorf("first %v, later %v", first, later)
	}
	text := explainDecision(testPolicies(), r, denial(2*second))
	if want := "Denied 2s ago, and repeated without asking again, as the policy's deny_cache says. " +
		"Next admitted at 2026-11-21T12:01:30.25Z, in 1m28s."; !strings.HasPrefix(text, want) {
		t.Errorf("explained as %s", text)
	}
}
