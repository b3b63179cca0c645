package batchwait

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const batchTakes = 5 * time.Millisecond

// world is one stream of batches under a Pace, in simulated time. Some callers ask again after their answers; others
// come at random.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	pace  *Pace // nil: nothing waits
	now   time.Time
	comes []arrival // future arrivals, soonest first
	queue []arrival

	batches, waits, outs int    // outs: waits that ended with fewer requests than the target
	answered             [2]int // callers that ask again, and others
	latency              [2]time.Duration
}

type arrival struct {
	at    time.Time
	other bool // does not ask again
}

func newWorld(t *testing.T, pace *Pace) *world {
	return &world{t: t, rng: rand.New(rand.NewPCG(1, 2)), pace: pace, now: time.Unix(1_800_000_000, 0)}
}

func (w *world) come(after time.Duration, other bool) {
	a := arrival{w.now.Add(after), other}
	at, _ := slices.BinarySearchFunc(w.comes, a.at, func(c arrival, at time.Time) int { return c.at.Compare(at) })
	w.comes = slices.Insert(w.comes, at, a)
}

// pass advances the time; requests that arrive until then join the queue.
func (w *world) pass(to time.Time) {
	n := 0
	for n < len(w.comes) && !w.comes[n].at.After(to) {
		n++
	}
	w.queue = append(w.queue, w.comes[:n]...)
	w.comes = w.comes[n:]
	w.now = to
}

// hold waits as the pace says, from the first queued request on.
func (w *world) hold() {
	if len(w.queue) == 0 {
		w.pass(w.comes[0].at)
	}
	if w.pace == nil {
		return
	}
	began := w.now
	for left := w.pace.Left(len(w.queue), time.Time{}, w.now); left > 0; left = w.pace.Left(len(w.queue),
		time.Time{}, w.now) {
		end := w.now.Add(left)
		if len(w.comes) > 0 && w.comes[0].at.Before(end) {
			end = w.comes[0].at
		}
		w.pass(end)
	}
	if waited := w.now.Sub(began); waited > 0 {
		w.waits++
		if len(w.queue) < w.pace.Target() {
			w.outs++
		}
		if waited > Most || waited > 2*batchTakes {
			w.t.Fatalf("a wait took %v", waited)
		}
	}
}

// run makes batches. back returns the time after which a caller asks again.
func (w *world) run(batches int, back func() time.Duration) {
	for range batches {
		w.hold()
		batch := w.queue
		w.queue = nil
		took := time.Duration(float64(batchTakes) * (0.8 + 0.4*w.rng.Float64()))
		w.pass(w.now.Add(took))
		for _, a := range batch {
			kind := 0
			if a.other {
				kind = 1
			}
			w.answered[kind]++
			w.latency[kind] += w.now.Sub(a.at)
			if !a.other {
				w.come(back(), false)
			}
		}
		if w.pace != nil {
			w.pace.Answered(len(batch), len(w.queue), took, w.now)
		}
		w.batches++
	}
}

// others adds random arrivals for the duration of some batches, on average each of them per batch.
func (w *world) others(each float64, batches int) {
	for at, end := time.Duration(0), time.Duration(batches)*batchTakes; at < end; {
		at += time.Duration(w.rng.ExpFloat64() / each * float64(batchTakes))
		w.come(at, true)
	}
}

func (w *world) soon() time.Duration {
	return 50*time.Microsecond + time.Duration(w.rng.IntN(300))*time.Microsecond
}

// size returns the average number of requests per batch since the counts were cleared.
func (w *world) size() float64 { return float64(w.answered[0]+w.answered[1]) / float64(w.batches) }

func (w *world) clear() {
	w.batches, w.waits, w.outs, w.answered, w.latency = 0, 0, 0, [2]int{}, [2]time.Duration{}
}

func TestCallersWhoAskAgainAtOnceTravelTogether(t *testing.T) {
	for _, callers := range []int{2, 3, 20, 64, 1000} {
		w := newWorld(t, &Pace{})
		for range callers {
			w.come(w.soon(), false)
		}
		w.run(100, w.soon)
		w.clear()
		w.run(200, w.soon)
		if w.size() < 0.95*float64(callers) {
			t.Errorf("%d callers make batches of %.1f", callers, w.size())
		}
	}
}

// Callers of three other batches, such as those of nodes: they return together, but not at once.
func TestCallersInGroupsTravelTogether(t *testing.T) {
	w := newWorld(t, &Pace{})
	groups := [3]time.Duration{}
	back := func() time.Duration { return groups[w.rng.IntN(3)] }
	for range 63 {
		w.come(0, false)
	}
	for range 400 {
		if w.batches == 200 {
			w.clear()
		}
		for i := range groups {
			groups[i] = batchTakes/4 + time.Duration(w.rng.Int64N(int64(batchTakes/4)))
		}
		w.run(1, back)
	}
	if w.size() < 55 {
		t.Errorf("63 callers make batches of %.1f", w.size())
	}
}

// Callers that come at random lose almost nothing to the attempts, once the pace has learned that.
func TestWhoDoesNotAskAgainIsNotHeldUp(t *testing.T) {
	for _, each := range []float64{0.2, 1, 2, 5, 20, 100} {
		mean := func(p *Pace) (time.Duration, *world) {
			w := newWorld(t, p)
			w.others(each, 3000)
			batches := int(1000 * min(1, each/2))
			w.run(batches, nil)
			w.clear() // the pace has learned by now
			w.run(batches, nil)
			return w.latency[1] / time.Duration(w.answered[1]), w
		}
		without, _ := mean(nil)
		with, w := mean(&Pace{})
		if more := with - without; more > batchTakes/20 {
			t.Errorf("%v come in the time of a batch: they wait %v longer", each, more)
		}
		if share := float64(w.waits) / float64(w.batches); share > 0.1 {
			t.Errorf("%v come in the time of a batch: %.2f of the batches waited", each, share)
		}
	}
}

// If only a part of the callers returns in time, the wait is for that part: it seldom ends in vain.
func TestTheWaitIsForThoseWhoComeBack(t *testing.T) {
	w := newWorld(t, &Pace{})
	back := func() time.Duration {
		if w.rng.IntN(4) == 0 {
			return 20 * time.Millisecond
		}
		return w.soon()
	}
	for range 64 {
		w.come(w.soon(), false)
	}
	w.run(500, back)
	w.clear()
	w.run(1000, back)
	if w.waits < 800 || w.outs > w.waits/2 {
		t.Errorf("of 1,000 batches %d waited, and %d of those in vain", w.waits, w.outs)
	}
}

// When callers no longer return, the waits stop and are tried rarely. When callers return again, one attempt is enough.
func TestWaitsStopAndBeginAgain(t *testing.T) {
	p := &Pace{}
	now := time.Unix(1_800_000_000, 0)
	// batch answers ten callers; one of them returns, and the others return in time or not. It reports whether the one
	// waited.
	batch := func(back bool) bool {
		p.Answered(10, 0, batchTakes, now)
		now = now.Add(time.Millisecond)
		left := p.Left(1, time.Time{}, now)
		switch {
		case left == 0:
			now = now.Add(batchTakes)
			return false
		case back:
			now = now.Add(100 * time.Microsecond)
			left = p.Left(10, time.Time{}, now)
		default:
			now = now.Add(left)
			left = p.Left(1, time.Time{}, now)
		}
		if left != 0 {
			t.Fatalf("a wait that is over goes on for %v", left)
		}
		now = now.Add(batchTakes)
		return true
	}
	count := func(batches int, back bool) (waits int) {
		for range batches {
			if batch(back) {
				waits++
			}
		}
		return waits
	}
	if n := count(100, true); n != 100 {
		t.Fatalf("callers come back, and %d of 100 batches waited", n)
	}
	count(1000, false)
	if n := count(1000, false); n == 0 || n > 50 {
		t.Errorf("callers do not come back, and %d of 1,000 batches waited", n)
	}
	count(2*pauseMost, true)
	if n := count(100, true); n != 100 {
		t.Errorf("callers come back again, and %d of 100 batches waited", n)
	}
}

// In all cases: a lone caller does not wait, and no wait is longer than a batch or than Most.
func TestAWaitIsBoundedAndNeverForOneAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		p := &Pace{}
		now := time.Unix(1_800_000_000, 0)
		var longest time.Duration
		for range 50 {
			took := time.Duration(rng.Int64N(1 << rng.IntN(26)))
			longest = max(longest, took)
			n, queued := 1+rng.IntN(5), rng.IntN(5)*rng.IntN(2)
			waits := p.Answered(n, queued, took, now)
			if waits && n+queued == 1 {
				t.Fatal("a request that is alone waits")
			}
			if waits != (p.bound > 0) {
				t.Fatal("it says two things")
			}
			answered := now
			for asked := 0; ; asked++ {
				now = now.Add(time.Duration(rng.Int64N(int64(time.Millisecond))))
				queued += rng.IntN(3)
				left := p.Left(queued, time.Time{}, now)
				if left > 0 &&
					(!waits || queued >= p.Target() || now.Add(left).After(answered.Add(min(longest, Most)))) {
					t.Fatalf("%v after the answers, %d queue: %v more; batches take %v at most",
						now.Sub(answered), queued, left, longest)
				}
				if left == 0 && queued > 0 {
					break
				}
			}
			if p.Left(queued, time.Time{}, now) != 0 {
				t.Fatal("a wait that is over begins again")
			}
		}
	}
}

func TestAWaitEndsForADeadlineAndAtAWord(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := &Pace{}
	p.Answered(10, 0, batchTakes, now)
	if left := p.Left(1, now.Add(time.Millisecond), now); left != time.Millisecond {
		t.Errorf("due in 1 ms, it waits %v", left)
	}
	if left := p.Left(1, now.Add(-1), now); left != 0 {
		t.Errorf("due, it waits %v", left)
	}
	p.Answered(10, 0, batchTakes, now)
	if left := p.Left(1, time.Time{}, now.Add(-time.Hour)); left != batchTakes {
		t.Errorf("the clock was set back, and it waits %v", left)
	}
	p.End()
	if left := p.Left(1, time.Time{}, now); left != 0 {
		t.Errorf("ended, it waits %v", left)
	}
	if !p.Answered(10, 0, batchTakes, now) || p.Left(1, time.Time{}, now) == 0 {
		t.Error("the end of one wait is that of the next")
	}
	if !p.Answered(10, 0, 0, now) {
		t.Error("one batch that took no time ends all waits")
	}
	if fast := (&Pace{}); fast.Answered(10, 0, least-1, now) {
		t.Error("it waits for less than timers can tell")
	}
}
