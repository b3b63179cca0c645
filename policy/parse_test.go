package policy_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each testdata/bad/*.yaml is refused with exactly the text of the .txt file beside it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/bad (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set, err := policy.Parse("policies.yaml", data)
			if err == nil {
				t.Fatalf("accepted, with the policies %v", set.Names())
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestFileTooLarge(t *testing.T) {
	_, err := policy.Parse("policies.yaml", []byte(strings.Repeat("#", 1<<20+1)))
	want := "policies.yaml: the file has 1048577 bytes: at most 1048576 are read"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A file full of mistakes gets an error of one page at most.
func TestManyProblemsAreCutShort(t *testing.T) {
	_, err := policy.Parse("policies.yaml", []byte("policies:\n"+strings.Repeat("  A: {}\n", 200)))
	var parse *policy.ParseError
	if !errors.As(err, &parse) {
		t.Fatalf("got %v", err)
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 51 || !strings.Contains(lines[50], "more") {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
	if len(parse.Problems) < 200 {
		t.Errorf("%d problems are kept, want all", len(parse.Problems))
	}
}

// Every field of a file reaches the Policy.
func TestEveryField(t *testing.T) {
	set, err := policy.Parse("policies.yaml", []byte(`
policies:
  everything:
    headers: [ietf, x-quota]
    reason: Too many requests. Wait a little.
    security: true
    shadow: true
    idempotency_retention: 24h
    on_change: proportional
    on_expire: commit
    count_denied: true
    parent: shared
    lockout: {after: 3, base: 1s, factor: 3, max: 2h, forgive_after: 12h, on_denied: true, step_down: true}
    default_tier: small
    tiers:
      small: {log: {quota: 1}, gcra: {rate: 7}}
    limits:
      - {name: aligned, quota: 1_000_000, unit: bytes, fixed_window: {period: 1h, anchor: epoch}}
      - {name: hit, quota: 2, shadow: true, fixed_window: {period: 90s, anchor: first_hit}}
      - {name: weighted, quota: 3, sliding_window: {period: 60s}}
      - {name: buckets, quota: 4, sliding_window: {period: 24h, bucket: 1m}}
      - {name: log, quota: 5, sliding_log: {period: 1w2d10m}}
      - {name: bucket, quota: 6, token_bucket: {refill: 2, per: 1s, initial: 1}}
      - {name: full, quota: 6, token_bucket: {refill: 2, per: 1s}}
      - {name: gcra, quota: 7, gcra: {rate: 5, per: 1500us}}
      - {name: ever, quota: 8, lifetime: {}}
      - {name: free, unlimited: {}}
      - {name: month, quota: 9, calendar: {unit: month, time_zone: America/New_York, anchor_day: 15}}
      - {name: weeks, quota: 9, calendar: {unit: week, every: 2, time_zone: America/New_York, week_start: 7}}
      - {name: day, quota: 9, calendar: {unit: day}}
      - {name: open, quota: 10, concurrency: {}}
  shared:
    deny_cache: 250ms
    limits: [{name: year, quota: 1, calendar: {unit: year, time_zone: America/New_York}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := set.Lookup("everything")
	shared, _ := set.Lookup("shared")
	newYork := shared.Limits[0].Cycle.Zone
	const second = limit.Span(1_000_000)
	want := []limit.Limit{
		{Algorithm: limit.FixedWindow, Quota: 1_000_000, Period: 3600 * second},
		{Algorithm: limit.FixedWindowFirstHit, Quota: 2, Period: 90 * second},
		{Algorithm: limit.SlidingWindow, Quota: 3, Period: 60 * second},
		{Algorithm: limit.SlidingBuckets, Quota: 4, Period: 86400 * second, Bucket: 60 * second},
		{Algorithm: limit.SlidingLog, Quota: 5, Period: 9*86400*second + 600*second},
		{Algorithm: limit.TokenBucket, Quota: 6, Period: second, Count: 2, Initial: 1},
		{Algorithm: limit.TokenBucket, Quota: 6, Period: second, Count: 2, Initial: 6},
		{Algorithm: limit.GCRA, Quota: 7, Period: 1500, Count: 5},
		{Algorithm: limit.Lifetime, Quota: 8},
		{Algorithm: limit.Unlimited},
		{Algorithm: limit.Calendar, Quota: 9, Cycle: &limit.Cycle{Unit: limit.Month, Every: 1, AnchorDay: 15,
			Zone: newYork}},
		{Algorithm: limit.Calendar, Quota: 9, Cycle: &limit.Cycle{Unit: limit.Week, Every: 2, WeekStart: 7,
			Zone: newYork}},
		{Algorithm: limit.Calendar, Quota: 9, Cycle: &limit.Cycle{Unit: limit.Day, Every: 1, Zone: zone("UTC")}},
		{Algorithm: limit.Concurrency, Quota: 10},
	}
	if newYork.String() != "America/New_York" || shared.Limits[0].Cycle.AnchorDay != 1 {
		t.Errorf("the year is %+v", shared.Limits[0])
	}
	if want := (policy.Lockout{After: 3, Base: second, Factor: 3, Max: 7200 * second, ForgiveAfter: 12 * 3600 * second,
		OnDenied: true, StepDown: true}); p.Lockout == nil || *p.Lockout != want {
		t.Errorf("the lockout is %+v, want %+v", p.Lockout, want)
	}
	for i, w := range want {
		if !p.Limits[i].Equal(&w) {
			t.Errorf("limits[%d] is %+v, want %+v", i, p.Limits[i].Limit, w)
		}
	}
	if !p.Security || !p.Shadow || p.Limits[0].Shadow || !p.Limits[1].Shadow || p.Limits[0].Unit != "bytes" ||
		p.Reason != "Too many requests. Wait a little." || p.Retention != 86400*second || p.DefaultTier != "small" ||
		strings.Join(p.Headers, " ") != "ietf x-quota" || *p.Tiers["small"].Limits["gcra"].Rate != 7 ||
		p.OnChange != policy.Proportional || p.OnExpire != policy.OnExpireCommit || !p.CountDenied ||
		p.Parent != "shared" || p.DenyCache != 0 || shared.DenyCache != second/4 {
		t.Errorf("got %+v", p)
	}
}

// A file may leave out numbers of a ladder, and on_expire.
func TestLockoutsDefaults(t *testing.T) {
	set := parsed(t, `
policies:
  short: {limits: [{name: a, quota: 1, lifetime: {}}], lockout: {after: 1, base: 1us}}
  long: {limits: [{name: a, quota: 1, lifetime: {}}], lockout: {after: 4294967295, base: 90m}}
`)
	const hour = limit.Span(3600 * 1_000_000)
	for name, want := range map[string]policy.Lockout{
		"short": {After: 1, Base: 1, Factor: 2, Max: hour, ForgiveAfter: 24 * hour},
		"long":  {After: 1<<32 - 1, Base: hour + hour/2, Factor: 2, Max: hour + hour/2, ForgiveAfter: 24 * hour},
	} {
		p, _ := set.Lookup(name)
		if *p.Lockout != want {
			t.Errorf("%s is %+v, want %+v", name, *p.Lockout, want)
		}
		if p.OnExpire != policy.OnExpireCancel || p.OnChange != policy.AsIs {
			t.Errorf("%s has on_expire %d and on_change %d", name, p.OnExpire, p.OnChange)
		}
	}
}

func TestRetentionIsTenMinutesByDefault(t *testing.T) {
	p, _ := policy.Dev().Lookup("per-ip")
	if p.Retention != 600*1_000_000 {
		t.Errorf("got %d µs", p.Retention)
	}
}

// Idempotency records may live as long as the longest window that they protect, or ten minutes.
func TestRetentionUpToTheWindow(t *testing.T) {
	for _, tt := range []struct {
		limit, longest, longer string
	}{
		{"quota: 1, sliding_log: {period: 1m}", "10m", "10m1us"},
		{"quota: 1, fixed_window: {period: 24h}", "24h", "24h1us"},
		{"quota: 7, token_bucket: {refill: 2, per: 1h}", "3h30m", "3h30m1us"},
		{"quota: 100, gcra: {rate: 3, per: 1h}", "33h20m", "33h20m1us"},
		{"quota: 1, lifetime: {}", "876000h", ""},
		{"unlimited: {}", "10m", "11m"},
		{"quota: 1, concurrency: {}", "10m", "11m"},
		{"quota: 1, calendar: {unit: minute, every: 90}", "90m", "90m1us"},
		{"quota: 1, calendar: {unit: month}", "745h", "745h1us"}, // 31 days, one of 25 hours
	} {
		for _, retention := range []string{tt.longest, tt.longer} {
			if retention == "" {
				continue
			}
			text := "policies: {p: {idempotency_retention: " + retention + ", limits: [{name: x, " + tt.limit + "}]}}"
			_, err := policy.Parse("f", []byte(text))
			if (err == nil) != (retention == tt.longest) {
				t.Errorf("%s with a retention of %s: %v", tt.limit, retention, err)
			}
		}
	}
}

// The work of a parse is bounded by the size of the file, whatever its content.
func TestHostileFiles(t *testing.T) {
	repeat := func(text string) string { return strings.Repeat(text, (1<<17)/len(text)) }
	for name, text := range map[string]string{
		"deep":          strings.Repeat("[", 1<<20),
		"one long list": "policies: {p: {limits: [" + repeat("a,") + "]}}",
		"many limits":   "policies: {p: {limits: [" + repeat("{name: x, quota: 1, lifetime: {}},") + "]}}",
		"many fields":   "policies: {p: {" + repeat("a: 1,") + "}}",
		"limits x tiers": "policies: {p: {limits: [" + strings.Repeat("{quota: 1},", 5_000) + "], tiers: {" +
			many(5_000, ": {},") + "}}}",
		"many zones": "policies: {p: {limits: [" + strings.ReplaceAll(many(10_000, "}},"), "n",
			"{calendar: {time_zone: Z/") + "]}}",
		"many policies": "policies: {" + many(5_000, ": {limits: [1]},") + "}",
		"a long name":   "policies: {" + repeat("a") + ": {limits: [{}]}}",
	} {
		if set, err := policy.Parse("f", []byte(text)); err == nil {
			t.Errorf("%s: accepted with %d policies", name, len(set.Names()))
		} else if len(err.Error()) > 1<<20 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func many(n int, suffix string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "n%d%s", i, suffix)
	}
	return text.String()
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(policy.Format(policy.Dev()))
	everything, err := os.ReadFile("testdata/every_field.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(everything)
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := policy.Parse("f", data)
		if err != nil {
			var parse *policy.ParseError
			if !errors.As(err, &parse) || len(parse.Problems) == 0 {
				t.Fatalf("an error without problems: %v", err)
			}
			return
		}
		readBack(t, set)
		for _, name := range set.Names() {
			p, _ := set.Lookup(name)
			if strings.ContainsAny(name, "/ \n") {
				t.Fatalf("the name %q was accepted", name)
			}
			for tier := range p.Tiers {
				limits, ok := p.Resolve(tier)
				if !ok || len(limits) != len(p.Limits) {
					t.Fatalf("tier %q of %q has %d limits of %d", tier, name, len(limits), len(p.Limits))
				}
				for _, l := range limits {
					if err := l.Validate(); err != nil {
						t.Fatalf("%s, tier %s: %v", name, tier, err)
					}
				}
			}
		}
	})
}
