package bench

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// The bound of each algorithm for a key within a run, in requests of cost 1 unless the case says otherwise. The
// instants are chosen away from the rounding of the clock allowance.
func TestAtMost(t *testing.T) {
	hour := durationpb.New(time.Hour)
	firstHit := &stintv1.Limit{Quota: new(uint64(100)), Algorithm: &stintv1.Limit_FixedWindow{
		FixedWindow: &stintv1.FixedWindow{Period: hour, Anchor: stintv1.Anchor_ANCHOR_FIRST_HIT}}}
	epoch := &stintv1.Limit{Quota: new(uint64(100)), Algorithm: &stintv1.Limit_FixedWindow{
		FixedWindow: &stintv1.FixedWindow{Period: hour}}}
	weighted := &stintv1.Limit{Quota: new(uint64(100)), Algorithm: &stintv1.Limit_SlidingWindow{
		SlidingWindow: &stintv1.SlidingWindow{Period: hour}}}
	buckets := &stintv1.Limit{Quota: new(uint64(100)), Algorithm: &stintv1.Limit_SlidingWindow{
		SlidingWindow: &stintv1.SlidingWindow{Period: hour, Bucket: durationpb.New(15 * time.Minute)}}}
	slidingLog := &stintv1.Limit{Quota: new(uint64(100)), Algorithm: &stintv1.Limit_SlidingLog{
		SlidingLog: &stintv1.SlidingLog{Period: hour}}}
	initial := uint64(10)
	bucket := &stintv1.Limit{Quota: new(uint64(100)), Algorithm: &stintv1.Limit_TokenBucket{
		TokenBucket: &stintv1.TokenBucket{Refill: 60, Per: hour, Initial: &initial}}}
	gcra := &stintv1.Limit{Quota: new(uint64(100)),
		Algorithm: &stintv1.Limit_Gcra{Gcra: &stintv1.Gcra{Rate: 60, Per: hour}}}
	lifetime := &stintv1.Limit{Quota: new(uint64(100)),
		Algorithm: &stintv1.Limit_Lifetime{Lifetime: &stintv1.Lifetime{}}}

	const used = false
	for _, c := range []struct {
		name        string
		limit       *stintv1.Limit
		start, long time.Duration // start after a full hour
		cost        uint64
		fresh       bool
		want        uint64
	}{
		{"first hit, one window", firstHit, 50 * time.Minute, 30 * time.Minute, 1, true, 100},
		{"first hit, cost 30", firstHit, 0, 30 * time.Minute, 30, true, 90},
		{"first hit, a second window", firstHit, 0, 61 * time.Minute, 1, true, 200},
		{"first hit, one may be open already", firstHit, 0, 30 * time.Minute, 1, used, 200},
		{"epoch, inside a window", epoch, 10 * time.Minute, 40 * time.Minute, 1, true, 100},
		{"epoch, across an edge", epoch, 50 * time.Minute, 20 * time.Minute, 1, true, 200},
		{"epoch, so near an edge that clocks may differ", epoch, 500 * time.Millisecond, time.Second, 1, true, 200},
		{"weighted, half a window later", weighted, 0, 30*time.Minute + time.Second, 1, true, 150},
		{"buckets, inside", buckets, 0, 40 * time.Minute, 1, true, 100},
		{"buckets, one bucket early", buckets, 0, 46 * time.Minute, 1, true, 200},
		{"log, inside", slidingLog, 0, 50 * time.Minute, 1, true, 100},
		{"log, the first hits are gone", slidingLog, 0, 61 * time.Minute, 1, true, 200},
		{"token bucket", bucket, 0, 5*time.Minute + time.Second, 1, true, 15},
		{"token bucket that was used", bucket, 0, 5*time.Minute + time.Second, 1, used, 105},
		{"gcra", gcra, 0, 5*time.Minute + time.Second, 1, true, 105},
		{"gcra, cost 50", gcra, 0, 5 * time.Minute, 50, true, 100},
		{"lifetime", lifetime, 0, 1000 * time.Hour, 1, used, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ruleOf(c.limit, nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Unix(1_800_000_000, 0).Truncate(time.Hour).Add(c.start)
			if got := r.atMost(c.cost, Span{began, began.Add(c.long), c.fresh}); got != c.want {
				t.Errorf("at most %d, want %d", got, c.want)
			}
		})
	}
}

func TestRulesOfTiers(t *testing.T) {
	p := oncePerDay(100)
	more := uint64(500)
	p.Tiers = map[string]*stintv1.Tier{
		"big":  {Limits: map[string]*stintv1.TierLimit{"day": {Quota: &more}}},
		"free": {Unlimited: true},
	}
	p.DefaultTier = "big"
	for tier, want := range map[string]uint64{"": 500, "big": 500, "free": math.MaxUint64} {
		rules, err := rulesOf(p, tier)
		if err != nil || atRest(rules) != want {
			t.Errorf("tier %q: %d at rest, error %v, want %d", tier, atRest(rules), err, want)
		}
	}
	if _, err := rulesOf(p, "absent"); err == nil {
		t.Error("a tier that is not there was accepted")
	}
}

// A policy with an unknown algorithm is reported as not audited, instead of being judged by a guess.
func TestUnknownAlgorithmIsNotAudited(t *testing.T) {
	fake := newFake(100)
	fake.policy.Limits[0].Algorithm = &stintv1.Limit_Calendar{Calendar: &stintv1.Calendar{}}
	report := mustRun(t, countPlan(fake.start(t), JSON))
	if v := report.Verdict; v.Checked || !v.OK || v.Exact {
		t.Errorf("verdict %+v", v)
	}
}
