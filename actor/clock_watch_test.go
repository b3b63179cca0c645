package actor

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// fakeReference is the Config.Reference of a test, and records the reports about it.
type fakeReference struct {
	guard   sync.Mutex
	ahead   time.Duration
	unknown bool
	told
}

type told struct{ off, wrong, handOver []time.Duration }

func (f *fakeReference) in(c *Config) {
	c.Reference = func() (time.Duration, bool) {
		f.guard.Lock()
		defer f.guard.Unlock()
		return f.ahead, !f.unknown
	}
	note := func(list *[]time.Duration, ahead time.Duration) {
		f.guard.Lock()
		defer f.guard.Unlock()
		*list = append(*list, ahead)
	}
	c.Observer.ClockOff = func(ahead time.Duration) { note(&f.off, ahead) }
	c.Observer.ClockWrong = func(ahead time.Duration) { note(&f.wrong, ahead) }
	c.Observer.HandOver = func(string) { note(&f.handOver, 0) }
}

func (f *fakeReference) set(ahead time.Duration, unknown bool) {
	f.guard.Lock()
	defer f.guard.Unlock()
	f.ahead, f.unknown = ahead, unknown
}

func (f *fakeReference) heard() told {
	synctest.Wait()
	f.guard.Lock()
	defer f.guard.Unlock()
	return f.told
}

// runs returns how far shard time is ahead of the time in the bubble, and the epoch.
func runs(t *testing.T, a *Actor) (ahead time.Duration, epoch uint64) {
	result := ask(t, a, take(""))
	mustSay(t, result, "allowed")
	return time.Until(time.UnixMicro(int64(result.Decision.DecidedAt))), result.Decision.Position.Epoch
}

// Shard time begins at the reference, not at this machine's clock, and follows it by at most 500 ppm. Without a
// measurement it continues unchanged.
func TestShardTimeFollowsTheReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeReference{ahead: 150 * time.Millisecond}
		a := startActor(t, newFakeReplica(), 1000, f.in)
		synctest.Wait()
		_, began := runs(t, a)
		for i, step := range []struct {
			ahead   time.Duration // of the machine, from now on
			unknown bool
			after   time.Duration
			runs    time.Duration // shard time, after that
		}{
			{150 * time.Millisecond, false, time.Second, -150 * time.Millisecond},
			{50 * time.Millisecond, false, 100 * time.Second, -100 * time.Millisecond},
			{50 * time.Millisecond, true, 100 * time.Second, -100 * time.Millisecond},
			{50 * time.Millisecond, false, 200 * time.Second, -50 * time.Millisecond},
			{110 * time.Millisecond, false, 100 * time.Second, -100 * time.Millisecond},
			{110 * time.Millisecond, false, 100 * time.Second, -110 * time.Millisecond},
		} {
			f.set(step.ahead, step.unknown)
			time.Sleep(step.after)
			got, epoch := runs(t, a)
			if apart := got - step.runs; apart.Abs() > time.Millisecond || epoch != began {
				t.Fatalf("step %d: shard time is %v ahead, must be %v; epoch %d after %d",
					i, got, step.runs, epoch, began)
			}
		}
	})
}

// Shard time that is 400 ms behind the reference starts again at the reference, whatever this machine's clock shows.
func TestShardTimeFarBehindTheReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeReference{}
		a := startActor(t, newFakeReplica(), 1000, f.in)
		synctest.Wait()
		_, began := runs(t, a)
		f.set(-390*time.Millisecond, false)
		time.Sleep(time.Second)
		if got, epoch := runs(t, a); got > time.Millisecond || epoch != began {
			t.Fatalf("shard time is %v ahead in epoch %d", got, epoch)
		}
		f.set(-time.Second, false)
		time.Sleep(time.Second)
		if got, epoch := runs(t, a); got != time.Second || epoch == began {
			t.Fatalf("shard time is %v ahead in epoch %d", got, epoch)
		}
	})
}

// No epoch opens before the time of a majority was measured. An open one continues.
func TestNoReferenceNoEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fakeReference{unknown: true}, newFakeReplica()
		a := startActor(t, r, 1000, f.in)
		if result := ask(t, a, take("")); result.Err != errNoTime {
			t.Fatalf("%+v", result)
		}
		f.set(0, false)
		time.Sleep(time.Second)
		mustSay(t, ask(t, a, take("")), "allowed")
		f.set(0, true)
		time.Sleep(time.Hour)
		mustSay(t, ask(t, a, take("")), "allowed")
		r.next(fakeFate{lost: true, err: errNotOwner})
		mustSay(t, ask(t, a, take("")), notOwner)
		if result := ask(t, a, take("")); result.Err != errNoTime {
			t.Fatalf("%+v", result)
		}
	})
}

// Wrong clocks are reported as often as their alarms allow and no more often.
func TestWrongClocksAreTold(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		ahead                time.Duration
		off, wrong, handOver int // in 25 s
	}{
		{200 * ms, 0, 0, 0},
		{-201 * ms, 3, 0, 0},
		{201 * ms, 3, 0, 0},
		{399 * ms, 3, 0, 0},
		{400 * ms, 3, 0, 5},
		{-3 * time.Second, 3, 0, 0},
		{11 * time.Second, 3, 3, 5},
		{-11 * time.Second, 3, 3, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeReference{ahead: tt.ahead}
			a := startActor(t, newFakeReplica(), 1000, f.in)
			time.Sleep(25 * time.Second)
			if told := f.heard(); len(told.off) != tt.off || len(told.wrong) != tt.wrong ||
				len(told.handOver) != tt.handOver {
				t.Fatalf("%v ahead: told %+v", tt.ahead, told)
			}
			if got, _ := runs(t, a); got != -tt.ahead {
				t.Fatalf("%v ahead: shard time is %v ahead", tt.ahead, got)
			}
		})
	}
}

// A follower's clock is reported too; it has nothing to hand over.
func TestWrongClockOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, r := &fakeReference{ahead: time.Minute}, newFakeReplica()
		r.leading.Store(false)
		startActor(t, r, 1000, f.in)
		time.Sleep(time.Second)
		if told := f.heard(); len(told.off) != 1 || len(told.wrong) != 1 || len(told.handOver) != 0 {
			t.Fatalf("told %+v", told)
		}
	})
}

// Measurements from before this machine's clock was set no longer count: shard time does not jump with the clock.
func TestClockSetSinceTheMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, f := newWrongClock(), &fakeReference{}
		a := startActor(t, newFakeReplica(), 1000, func(c *Config) {
			f.in(c)
			c.Now = clock.now
		})
		synctest.Wait()
		at, began := runs(t, a)
		clock.set(time.Hour)
		time.Sleep(4900 * time.Millisecond)
		f.set(time.Hour, false) // it was measured again
		time.Sleep(10 * time.Second)
		if got, epoch := runs(t, a); (got-at).Abs() > time.Millisecond || epoch != began {
			t.Fatalf("shard time was %v ahead, and is %v; epoch %d after %d", at, got, epoch, began)
		}
		if told := f.heard(); !slices.Equal(told.wrong, []time.Duration{time.Hour}) || len(told.handOver) == 0 {
			t.Fatalf("told %+v", told)
		}
	})
}

// A majority's clocks are trusted even when they are more than a day past the last stamp.
func TestMajorityMayStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := newFakeReplica(), &fakeReference{}
		r.install(shard.EncodeEpochOpen(0, limit.Time(time.Now().UnixMicro()), shard.LevelNewest))
		time.Sleep(25 * time.Hour)
		a := startActor(t, r, 1000, func(c *Config) {
			f.in(c)
			c.Observer.TimeStep = func(limit.Time, limit.Time) { t.Error("told of a step") }
		})
		mustSay(t, ask(t, a, take("")), "allowed")
	})
}

// Whatever its reference does, shard time never goes back and never runs more than 500 ppm faster or slower than the
// machine's monotonic time. It reaches a reference that stays constant.
func TestClockIsSlewed(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		wall := time.UnixMicro(genesis)
		reference := wall.Add(time.Duration(random.Int64N(int64(time.Second))))
		var c clock
		c.set(wall, reference)
		begin, shown := wall, reference
		for range 300 {
			passed := time.Duration(random.Int64N(int64(time.Second)))
			wall, reference = wall.Add(passed), reference.Add(passed)
			before := shown
			shown = c.read(wall)
			if slewed := shown.Sub(before) - passed; slewed.Abs() > passed/slewMost+1 {
				t.Fatalf("seed %d, after %v: shard time gained %v in %v", seed, wall.Sub(begin), slewed, passed)
			}
			switch random.IntN(6) {
			case 0:
				c.runFree(wall)
			case 1:
				reference = reference.Add(time.Duration(random.Int64N(int64(time.Minute)) - int64(30*time.Second)))
			case 2, 3:
				if behind := c.follow(wall, reference); behind != reference.Sub(shown) {
					t.Fatalf("seed %d: %v behind, must be %v", seed, behind, reference.Sub(shown))
				}
			}
		}
		behind := c.follow(wall, reference)
		passed := behind.Abs()*slewMost + time.Nanosecond
		if shown := c.read(wall.Add(passed)); !shown.Equal(reference.Add(passed)) {
			t.Fatalf("seed %d: %v behind, after %v shard time is %v off",
				seed, behind, passed, shown.Sub(reference.Add(passed)))
		}
	}
}
