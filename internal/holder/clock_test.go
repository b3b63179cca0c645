package holder

import (
	"testing"
	"time"
)

// Both clocks of the machine run, and none backwards.
func TestTheMachineHasClocks(t *testing.T) {
	read := MachineClock()
	first, last := read(), Time{}
	for last.Boot < first.Boot+2*bootFor || last.Wall <= first.Wall {
		last = read()
	}
	if wall := time.Now().UnixNano() - int64(last.Wall); wall < 0 || first.Boot <= 0 {
		t.Errorf("%+v, then %+v", first, last)
	}
}

// The boot clock is not read for each check. After a sleep the first reading shows it, and if the wall clock has been
// set back at the same time, the first one after a millisecond.
func TestASleepIsSeenAtOnce(t *testing.T) {
	for _, setBack := range []time.Duration{0, 9 * time.Minute, time.Hour, 2 * time.Hour} {
		var awake, slept, off time.Duration
		reads := 0
		c := clock{boot: func() time.Duration { reads++; return awake + slept }}
		c.now = func() (wall, mono time.Duration) { return awake + off, awake }
		c.read()
		for range 9 {
			awake += 100 * time.Microsecond
			if at := c.read(); at.Boot != awake || at.Wall != awake || reads != 1 {
				t.Errorf("awake: %v after %v, by %d readings", at, awake, reads)
			}
		}
		slept, off = time.Hour, time.Hour-setBack
		if off == 0 {
			awake += 100 * time.Microsecond
		}
		if at := c.read(); at.Boot != awake+slept || at.Wall != awake+off || reads != 2 {
			t.Errorf("after an hour of sleep, and the wall clock set back by %v: %v, by %d readings",
				setBack, at, reads)
		}
	}
}
