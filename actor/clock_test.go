package actor

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// wrongClock is a machine's clock that can be set while its monotonic reading runs on. Waking up from a suspend looks
// the same, except that the machine reports it. The clock is right at first.
type wrongClock struct {
	began   time.Time
	seconds atomic.Int64
	asleep  atomic.Int64
}

func newWrongClock() *wrongClock { return &wrongClock{began: time.Now()} }

func (c *wrongClock) set(by time.Duration) { c.seconds.Add(int64(by / time.Second)) }

func (c *wrongClock) suspend(by time.Duration) {
	c.set(by)
	c.asleep.Add(int64(by))
}

func (c *wrongClock) slept() time.Duration { return time.Duration(c.asleep.Load()) }

func (c *wrongClock) in(config *Config) { config.Now, config.Suspended = c.now, c.slept }

func (c *wrongClock) now() time.Time {
	reading := machineTime.Add(time.Since(c.began))
	return setWall(reading, c.began.Unix()-machineTime.Unix()+c.seconds.Load())
}

// machineTime has a monotonic reading, which no time in a synctest bubble has. It shows a whole second, as those do.
var machineTime = func() time.Time {
	now := time.Now()
	return now.Add(-time.Duration(now.Nanosecond()))
}()

// setWall changes the wall time of t and leaves its monotonic reading, which no method of package time does: the first
// word of a time with a monotonic reading holds its seconds in the 33 bits above the 30 bits of its nanoseconds.
func setWall(t time.Time, seconds int64) time.Time {
	word := (*uint64)(unsafe.Pointer(&t))
	*word += uint64(seconds) << 30
	return t
}

func TestWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWrongClock()
		before := c.now()
		for _, by := range []time.Duration{0, -time.Hour, 3 * time.Hour} {
			if c.set(by); c.now().Unix() != time.Now().Unix()+c.seconds.Load() || c.now().Sub(before) != 0 {
				t.Fatalf("set by %v it shows %v, and monotonic time moved by %v", by, c.now(), c.now().Sub(before))
			}
		}
		if time.Sleep(time.Second); c.now().Sub(before) != time.Second {
			t.Fatal("monotonic time does not run")
		}
	})
}

// ask submits a request without a deadline, because deadlines in a bubble follow the wall clock.
func ask(t *testing.T, a *Actor, r shard.Request) shard.Result {
	return a.Submit(t.Context(), []shard.Request{r})[0]
}

// freshID is an idempotency id as clients make them: a UUIDv7, which contains a time.
func freshID(at time.Time) string {
	ms := at.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7000-8000-000000000000", ms>>16, ms&0xffff)
}

// Shard time of an only voter runs with monotonic time. Setting the clock, back or forward, slows it down or speeds it
// up by 500 ppm, and opens no window. Time passes unseen only while the machine is suspended: then the epoch ends, and
// the next one begins that much later.
func TestShardTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newWrongClock()
		var told []time.Duration
		a := startActor(t, newFakeReplica(), 100, func(c *Config) {
			clock.in(c)
			c.Observer.ClockSet = func(ahead time.Duration) { told = append(told, ahead) }
			c.Observer.TimeStep = func(limit.Time, limit.Time) { t.Error("told of a step past the last stamp") }
		})
		time.Sleep(time.Second)
		begin := time.Now()
		first := ask(t, a, take("")).Decision
		for i, step := range []struct {
			set, sleep time.Duration
			runs       time.Duration // shard time minus true time
			opens      bool
		}{
			{0, 0, 0, false},
			{-time.Hour, 0, 0, false},
			{time.Hour, 0, 0, false},
			{23 * time.Hour, 0, 0, false},
			{48 * time.Hour, 0, 0, false},
			{0, 2 * time.Hour, 2 * time.Hour, true},
			{-71 * time.Hour, 0, 2 * time.Hour, false},
			{time.Hour, time.Hour, 3 * time.Hour, true},
		} {
			before := ask(t, a, take("")).Decision.Position.Epoch
			clock.set(step.set)
			clock.suspend(step.sleep)
			time.Sleep(time.Second)
			result := ask(t, a, take(freshID(time.Now().Add(step.runs))))
			mustSay(t, result, "allowed")
			want := first.DecidedAt + limit.Time((time.Since(begin) + step.runs).Microseconds())
			slewed := limit.Time(time.Since(begin).Microseconds() / 2000)
			if got := result.Decision.DecidedAt; got > want+slewed || got < want-slewed {
				t.Fatalf("step %d: decided at %d, must be %d, give or take %d", i, got, want, slewed)
			}
			if opened := result.Decision.Position.Epoch != before; opened != step.opens {
				t.Fatalf("step %d: another epoch was opened: %v", i, opened)
			}
		}
		a.Close(t.Context())
		if len(told) != 1 || told[0].Round(time.Second) != -time.Hour {
			t.Errorf("within ten minutes it was told that the clock was set by %v", told)
		}
	})
}

// After an epoch fails, the next one continues at shard time, whatever the clock shows by then.
func TestAClockThatWasSetIsNotTakenUpByTheNextEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, r := newWrongClock(), newFakeReplica()
		a := startActor(t, r, 100, clock.in)
		first := ask(t, a, take("")).Decision
		clock.set(20 * time.Hour)
		r.next(fakeFate{lost: true, err: errNotOwner})
		mustSay(t, ask(t, a, take("")), notOwner)
		time.Sleep(time.Second)
		result := ask(t, a, take(""))
		mustSay(t, result, "allowed")
		passed := time.Duration(result.Decision.DecidedAt-first.DecidedAt) * time.Microsecond
		if result.Decision.Position.Epoch == first.Position.Epoch || passed.Round(10*time.Millisecond) != time.Second {
			t.Errorf("in a second shard time went on by %v, from epoch %d to %d",
				passed, first.Position.Epoch, result.Decision.Position.Epoch)
		}
	})
}

// When shard time is found to be behind, queued requests wait for the next epoch, and requests under way get their own
// outcome.
func TestRequestsOutlastASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newWrongClock()
		r := newFakeReplica()
		a := startActor(t, r, 100, clock.in)
		synctest.Wait()
		release := r.holdWaits(t)
		proposed, waits := make(chan shard.Result, 1), make(chan shard.Result, 1)
		for _, answer := range []chan shard.Result{proposed, waits} {
			go func() { answer <- ask(t, a, take("")) }()
			synctest.Wait()
		}
		clock.suspend(time.Hour)
		time.Sleep(time.Second)
		if a.Open() {
			t.Fatal("the epoch is open although shard time is an hour behind")
		}
		release()
		mustSay(t, <-proposed, "allowed")
		result := <-waits
		mustSay(t, result, "allowed")
		if behind := clock.now().UnixMicro() - int64(result.Decision.DecidedAt); behind > behindMost.Microseconds() {
			t.Fatalf("decided %d us behind the clock", behind)
		}
	})
}

// A suspend of more than a day is left to the operator's judgment, as a stop of more than a day is.
func TestSuspendOfMoreThanADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newWrongClock()
		var steps atomic.Int32
		a := startActor(t, newFakeReplica(), 5, func(c *Config) {
			clock.in(c)
			c.Observer.TimeStep = func(limit.Time, limit.Time) { steps.Add(1) }
		})
		mustSay(t, ask(t, a, take("")), "allowed")
		clock.suspend(25 * time.Hour)
		time.Sleep(time.Second)
		mustSay(t, ask(t, a, take("")), unavailable)
		if steps.Load() == 0 {
			t.Fatal("nobody was told of the step")
		}
	})
}

// An owner with a clock behind the last stamp adds one microsecond with each entry, and reports it until the clock has
// caught up.
func TestFrozenShardTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		last := time.Now().Add(45 * time.Second)
		r.install(shard.EncodeEpochOpen(0, limit.Time(last.UnixMicro()), shard.LevelNewest))
		var told []time.Duration
		a := startActor(t, r, 100, func(c *Config) {
			c.IdleSum = time.Hour
			c.Observer.Frozen = func(behind time.Duration) { told = append(told, behind.Round(time.Second)) }
		})
		synctest.Wait()
		for i := range 3 {
			if at := one(t, a, take("")).Decision.DecidedAt; at != limit.Time(last.UnixMicro())+limit.Time(i)+2 {
				t.Fatalf("entry %d behind the adoption is %d us after the last stamp",
					i, at-limit.Time(last.UnixMicro()))
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		want := []time.Duration{45 * time.Second, 35 * time.Second, 25 * time.Second, 15 * time.Second}
		if !slices.Equal(told, want) {
			t.Fatalf("told %v, must be %v", told, want)
		}
		if at := one(t, a, take("")).Decision.DecidedAt; at != limit.Time(time.Now().UnixMicro()) {
			t.Fatalf("decided at %d, the clock says %d", at, time.Now().UnixMicro())
		}
	})
}
