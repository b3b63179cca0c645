package shard

import (
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The held units are updated rather than summed each time: they must equal the sum after any sequence of operations.
func TestWhatIsHeldIsTheSumOfWhatIsOpen(t *testing.T) {
	rnd := seeded(t)
	for range 300 {
		c, now := &counter{policy: inlinePolicy}, limit.Time(1000)
		for i := range 4 {
			l := waitLimits[rnd.IntN(len(waitLimits))]
			c.limits = append(c.limits, counted{name: string(rune('a' + i)), limit: l})
		}
		var names []string
		for range 40 {
			now += limit.Time(rnd.IntN(20))
			c.expire(now)
			switch n := rnd.IntN(10); {
			case n < 6 || len(names) == 0:
				h := hold{name: holdName(Position{}, uint32(len(names))), taken: now,
					expires: now + 1 + limit.Time(rnd.IntN(300)), cost: 1 + rnd.Uint64N(3),
					onExpire: policy.OnExpire(1 + rnd.IntN(2)), fresh: rnd.IntN(2) == 0,
					remote: rnd.IntN(9) == 0}
				for i := range c.limits {
					if rnd.IntN(5) == 0 {
						h.uncounted = append(h.uncounted, c.limits[i].name)
					} else {
						c.limits[i].state, _ = limit.Add(c.limits[i].limit, c.limits[i].state, h.cost, now)
					}
				}
				names = append(names, h.name)
				c.addHold(h)
			case n < 8:
				c.endHold(names[rnd.IntN(len(names))], rnd.IntN(2) == 0, now)
			case n < 9:
				c.extendHold(names[rnd.IntN(len(names))], now+50)
			case rnd.IntN(3) == 0:
				c.tidy(now)
			default:
				c.reset("b", now)
			}
			for j := range c.limits {
				if got, want := c.heldBy(j, now), addedUp(c, j, now); got != want {
					t.Fatalf("%v: %d units of it are held, want %d: %+v", c.limits[j], got, want, c.extras.openHolds())
				}
			}
		}
	}
}

// addedUp sums the holds that the limit would give back.
func addedUp(c *counter, j int, now limit.Time) (held uint64) {
	l := &c.limits[j]
	for _, h := range c.extras.openHolds() {
		counted := h.taken > l.since || h.fresh && h.taken == l.since
		if counted && !slices.Contains(h.uncounted, l.name) && limit.StillCounts(l.limit, l.state, h.taken, now) {
			held += h.cost
		}
	}
	return held
}
