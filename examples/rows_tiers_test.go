package examples

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// tier is one plan of an API.
type tier struct {
	name          string
	burst, refill int64 // tokens, tokens per second
	daily         uint64
}

// Rows 40 to 43, each with the numbers of one plan.
var tiers = []tier{
	{"free", 5, 2, 200},
	{"researcher", 30, 10, 5_000},
	{"compliance", 200, 50, 100_000},
	{"vendor", 1_000, 200, 1_000_000},
}

func TestSeedRow40To43BurstAndDayOfEachTier(t *testing.T) {
	c := node(t)
	for _, want := range tiers {
		t.Run(want.name, func(t *testing.T) {
			c := client{t, c.address}
			key := "row 40 " + want.name
			limits, _ := c.get("regulatory", key, "tier", want.name)
			burst, daily := find(t, limits, "burst"), find(t, limits, "daily")
			if burst.Quota != uint64(want.burst) || burst.Remaining != uint64(want.burst) || daily.Quota != want.daily {
				t.Fatalf("burst %d, %d remaining, daily %d", burst.Quota, burst.Remaining, daily.Quota)
			}
			admitted := emptyBucket(c, key, want)
			limits, _ = c.get("regulatory", key, "tier", want.name)
			if used := find(t, limits, "daily").Used; used != admitted {
				t.Errorf("%d are admitted, and the day has counted %d", admitted, used)
			}
			// The last unit of the day, and none after it.
			c.adjust("regulatory", key, "limit", "daily", "setUsed", want.daily-1)
			awaitToken(c, key, want.name)
			if d := c.check("regulatory", key, "tier", want.name); !d.Allowed || d.limit(t, "daily").Remaining != 0 {
				t.Errorf("the day's last: %+v", d)
			}
			if d := c.check("regulatory", key, "tier", want.name); d.Allowed || d.limit(t, "daily").Allowed {
				t.Errorf("one more than the day has: %+v", d)
			}
		})
	}
}

// emptyBucket asks for more than the bucket holds, and compares each answer with its own bucket, which it refills by
// the times of the answers.
func emptyBucket(c client, key string, want tier) (admitted uint64) {
	c.t.Helper()
	const micro = 1_000_000 // levels are in millionths of a token, so that a microsecond refills a whole number
	level, last := want.burst*micro, time.Time{}
	denied := 0
	for denied == 0 {
		for i, d := range c.batch(int(min(want.burst+1, 1000)), entry("regulatory", key, "tier", want.name)) {
			if !last.IsZero() {
				level = min(want.burst*micro, level+d.DecidedAt.Sub(last).Microseconds()*want.refill)
			}
			last = d.DecidedAt
			if should := level >= micro; d.Allowed != should {
				c.t.Fatalf("request %d: allowed %v, but the bucket has %d millionths", i+1, d.Allowed, level)
			}
			if d.Allowed {
				level -= micro
				admitted++
				continue
			}
			denied++
			wanted := time.Duration((micro-level+want.refill-1)/want.refill) * time.Microsecond
			if d.RetryAfter == nil || time.Duration(*d.RetryAfter) != wanted {
				c.t.Fatalf("request %d is to wait %v, want %v", i+1, d.RetryAfter, wanted)
			}
		}
	}
	if admitted < uint64(want.burst) {
		c.t.Errorf("%d are admitted, want at least %d", admitted, want.burst)
	}
	return admitted
}

// awaitToken waits until the bucket has a whole token, as the server reports it.
func awaitToken(c client, key, tier string) {
	c.t.Helper()
	await.Until(c.t, "a token comes back", func() bool {
		limits, _ := c.get("regulatory", key, "tier", tier)
		return find(c.t, limits, "burst").Remaining > 0
	})
}

// The tier internal is counted and never denied.
func TestSeedRow44InternalIsUnlimitedAndCounted(t *testing.T) {
	c := node(t)
	for range 3 {
		if d := c.check("regulatory", "row 44", "tier", "internal", "cost", 1_000_000); !d.Allowed {
			t.Fatalf("denied: %+v", d)
		}
	}
	limits, _ := c.get("regulatory", "row 44", "tier", "internal")
	if daily := find(t, limits, "daily"); daily.Used != 3_000_000 || !daily.Unlimited {
		t.Errorf("%+v, want 3000000 used and unlimited", daily)
	}
}

// Many callers on three nodes spend one vendor's units at once: burst and day agree with the answers.
func TestSeedRow45BothLimitsUnderLoad(t *testing.T) {
	clients := nodes(t)
	e := entry("regulatory", "row 45", "tier", "vendor")
	var mu sync.Mutex
	var wg sync.WaitGroup
	var admitted int64
	var first, last time.Time
	for i := range 12 {
		wg.Go(func() {
			decisions, err := batch(clients[i%len(clients)].address, 250, e)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, d := range decisions {
				if d.Allowed {
					admitted++
				}
				if first.IsZero() || d.DecidedAt.Before(first) {
					first = d.DecidedAt
				}
				if d.DecidedAt.After(last) {
					last = d.DecidedAt
				}
			}
		})
	}
	wg.Wait()
	// Under constant load, each token is taken from the bucket as soon as it is there.
	least, most := int64(1000), 1000+last.Sub(first).Microseconds()*200/1_000_000
	if admitted < least || admitted > most {
		t.Errorf("%d are admitted in %v, want %d to %d", admitted, last.Sub(first), least, most)
	}
	for _, c := range clients {
		limits, _ := c.get("regulatory", "row 45", "tier", "vendor")
		if used := find(t, limits, "daily").Used; used != uint64(admitted) {
			t.Errorf("%s: %d were admitted, and the day has counted %d", c.address, admitted, used)
		}
	}
}

// A bucket starts full, is refilled continuously, and is at rest when it is full again.
func TestSeedRow21TheBurstIsATokenBucket(t *testing.T) {
	c := node(t)
	first := c.check("regulatory", "row 21", "tier", "free")
	burst := first.limit(t, "burst")
	if !first.Allowed || burst.Remaining != 4 {
		t.Errorf("the first of a full bucket: %+v", burst)
	}
	if back := burst.ResetAt.Sub(first.DecidedAt); back != 500*time.Millisecond {
		t.Errorf("one token of two a second is back after %v", back)
	}
	await.Until(t, "the bucket is full", func() bool {
		limits, at := c.get("regulatory", "row 21", "tier", "free")
		burst = find(t, limits, "burst")
		full := !at.Before(first.DecidedAt.Add(500 * time.Millisecond))
		if (burst.Remaining == 5) != full || (burst.Used == 0) != full {
			t.Fatalf("%v after the first: %+v", at.Sub(first.DecidedAt), burst)
		}
		return full
	})
	if !burst.WindowStart.IsZero() {
		t.Errorf("at rest it has a window: %+v", burst)
	}
}

// The day is the running minute and the 1,439 before it. Units leave together with their minute.
func TestSeedRow22TheDayIsInMinutes(t *testing.T) {
	c := node(t)
	d := c.check("regulatory", "row 22", "tier", "free")
	minute := d.DecidedAt.Truncate(time.Minute)
	daily := d.limit(t, "daily")
	if daily.Used != 1 || !daily.ResetAt.Equal(minute.Add(24*time.Hour)) {
		t.Errorf("at %v: used %d until %v, want 1 until its minute is a day old",
			d.DecidedAt, daily.Used, daily.ResetAt)
	}
	c.adjust("regulatory", "row 22 full", "limit", "daily", "setUsed", "200")
	denied := c.check("regulatory", "row 22 full", "tier", "free")
	daily = denied.limit(t, "daily")
	if denied.Allowed || daily.Used != 200 || daily.RetryAfter == nil {
		t.Fatalf("at 200 of 200: %+v", denied)
	}
	// All 200 are from one minute, so they leave together: not after a day, but when that minute is a day old.
	until := denied.DecidedAt.Add(time.Duration(*daily.RetryAfter))
	if !until.Equal(daily.ResetAt) || !until.Equal(until.Truncate(time.Minute)) ||
		*daily.RetryAfter > wait(24*time.Hour) {
		t.Errorf("the wait ends at %v, reset at %v", until, daily.ResetAt)
	}
}

// The same at a scale that a test can observe: a window of five buckets, the running one and the four before it.
func TestSeedRow22BucketsLeaveOneByOne(t *testing.T) {
	c := node(t)
	const bucket, period = 100 * time.Millisecond, 500 * time.Millisecond
	d := c.check("buckets", "row 22")
	until := d.DecidedAt.Truncate(bucket).Add(period)
	await.Until(t, "the bucket leaves", func() bool {
		limits, at := c.get("buckets", "row 22")
		over := !at.Before(until)
		if (limits[0].Used == 0) != over {
			t.Fatalf("counted at %v and asked at %v: used %d", d.DecidedAt, at, limits[0].Used)
		}
		return over
	})
}

// An API key gets its tier from an override. A key without an override has the default tier.
func TestSeedRow24TheServerKnowsTheTierOfAKey(t *testing.T) {
	c := node(t)
	var none object
	c.must("PolicyService/PutOverride", object{"policy": "regulatory", "key": "row 24 known", "tier": "compliance",
		"note": "contract 17"}, &none)
	for key, want := range map[string]tier{"row 24 known": tiers[2], "row 24 unknown": tiers[0]} {
		d := c.check("regulatory", key)
		if b, q := d.limit(t, "burst").Quota, d.limit(t, "daily").Quota; b != uint64(want.burst) || q != want.daily {
			t.Errorf("%s has a burst of %d and a day of %d, want %+v", key, b, q, want)
		}
	}
	c.refused("PolicyService/PutOverride", object{"policy": "regulatory", "key": "row 24", "tier": "gold"},
		"invalid_argument")
	var answer struct{ Deleted bool }
	c.must("PolicyService/DeleteOverride", object{"policy": "regulatory", "key": "row 24 known"}, &answer)
	if d := c.check("regulatory", "row 24 known"); !answer.Deleted || d.limit(t, "daily").Quota != 200 {
		t.Errorf("deleted %v, and the day is %d", answer.Deleted, d.limit(t, "daily").Quota)
	}
	if d := c.check("regulatory", "row 24 known"); d.limit(t, "daily").Used != 3 {
		t.Errorf("after two changes of tier %d are used, want all 3", d.limit(t, "daily").Used)
	}
}

// Keys below a vendor's key have their own quotas, and share the vendor's.
func TestSeedRow63ProductsShareTheVendorsQuota(t *testing.T) {
	c := node(t)
	var none object
	c.must("PolicyService/PutOverride", object{"policy": "regulatory", "key": "{row 63}", "tier": "vendor"}, &none)
	c.adjust("regulatory", "{row 63}", "limit", "daily", "setUsed", "999990")
	if d := c.check("product", "{row 63}/product:x", "cost", 8); !d.Allowed || d.limit(t, "daily").Used != 999_998 {
		t.Errorf("8 of the last 10: %+v", d)
	}
	d := c.check("product", "{row 63}/product:y", "cost", 3)
	if d.Allowed || !slices.Equal(d.DeniedBy, []string{"regulatory/daily"}) || d.limit(t, "share").Used != 0 {
		t.Errorf("3 of the last 2, for another product: %+v", d)
	}
	c.adjust("product", "{row 63}/product:x", "setUsed", "400000")
	if d := c.check("product", "{row 63}/product:x"); d.Allowed ||
		!slices.Equal(d.DeniedBy, []string{"product/share"}) {
		t.Errorf("more than the product's share: %+v", d)
	}
	if d := c.check("product", "{row 63}/product:y", "cost", 2); !d.Allowed || d.limit(t, "share").Used != 2 {
		t.Errorf("the vendor's last 2: %+v", d)
	}
}

// A request that the day denies has not cost a token of the burst.
func TestSeedRow91ADenialByTheDaySpendsNoBurst(t *testing.T) {
	c := node(t)
	e := entry("full-day", "row 91")
	for i, d := range c.batch(20, e) {
		if want := i < 2; d.Allowed != want {
			t.Fatalf("request %d: allowed %v, want %v", i+1, d.Allowed, want)
		}
		if burst := d.limit(t, "burst"); i >= 2 && (burst.Used != 2 || !burst.Allowed) {
			t.Fatalf("request %d is denied by the day, and of the burst are used %d", i+1, burst.Used)
		}
	}
}
