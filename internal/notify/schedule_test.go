package notify

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"testing"
	"time"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func always(string) bool { return true }

// one is a schedule with one event for one sink.
func one() (*Schedule, Delivery) {
	d := Delivery{Sink: "billing", Event: "evt_1"}
	s := NewSchedule(Pace{})
	s.Sync([]Waiting{{d, noon, noon.Add(GiveUpAfter)}})
	return s, d
}

func TestAnEventIsTriedForThreeDays(t *testing.T) {
	for _, chance := range []float64{0, 0.5, 0.999} {
		s, d := one()
		now, tries := noon, 0
		var longest time.Duration
		for step := Wait; step == Wait; {
			due := s.Next(now, always)
			if len(due) == 0 {
				t.Fatalf("nothing is due at %v", now)
			}
			tries++
			now = now.Add(10 * time.Second) // the try
			step = s.Ended(d, Outcome{Why: "it answered 500"}, now, chance)
			next := s.waiting[d].next
			if s.Failing()["billing"] == "" {
				t.Fatal("nobody knows why")
			}
			if got := s.Next(max0(next.Add(-time.Nanosecond), now), always); len(got) > 0 {
				t.Fatalf("tried before %v", next)
			}
			wait := next.Sub(now)
			longest = max(longest, wait)
			if step == Wait {
				now = next
			}
		}
		if given := now.Sub(noon); given < GiveUpAfter || given > GiveUpAfter+7*time.Hour || tries < 18 || tries > 60 {
			t.Errorf("chance %v: given up after %v and %d tries", chance, given, tries)
		}
		if longest > backoffMost*3/2 {
			t.Errorf("chance %v: %v between two tries", chance, longest)
		}
	}
}

func max0(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestWhatIsTakenIsAcknowledgedOnce(t *testing.T) {
	s, d := one()
	if due := s.Next(noon, always); len(due) != 1 || due[0] != d {
		t.Fatal(due)
	}
	s.Sync([]Waiting{{d, noon, noon.Add(GiveUpAfter)}})
	if due := s.Next(noon, always); len(due) != 0 {
		t.Errorf("it is under way, and tried again: %v", due)
	}
	if step := s.Ended(d, Outcome{End: Delivered}, noon, 0); step != Acknowledge {
		t.Error(step)
	}
	if due := s.Next(noon.Add(time.Second), always); len(due) != 0 {
		t.Errorf("before the acknowledgement can be there: %v", due)
	}
	if due := s.Next(noon.Add(time.Minute), always); len(due) != 1 {
		t.Error("the acknowledgement is lost, and nothing follows")
	}
	s.Ended(d, Outcome{End: Delivered}, noon, 0)
	s.Sync(nil)
	if due := s.Next(noon.Add(time.Hour), always); len(due) != 0 || len(s.waiting) != 0 || len(s.sinks) != 0 {
		t.Errorf("%v after all is done: %d, %d", due, len(s.waiting), len(s.sinks))
	}
}

func TestRetryAfterHoldsTheWholeSink(t *testing.T) {
	s, d := one()
	other := Delivery{Sink: "billing", Event: "evt_2"}
	s.Next(noon, always)
	s.Ended(d, Outcome{After: 10 * time.Minute, Why: "it answered 429"}, noon, 0.5)
	s.Sync([]Waiting{{d, noon, noon.Add(GiveUpAfter)}, {other, noon, noon.Add(GiveUpAfter)}})
	if due := s.Next(noon.Add(10*time.Minute-1), always); len(due) != 0 {
		t.Errorf("%v before the receiver wants anything", due)
	}
	if due := s.Next(noon.Add(10*time.Minute), always); len(due) != 1 {
		t.Errorf("%v when it wants something again", due)
	}
}

func TestASinkThatIsNotReadyIsLeft(t *testing.T) {
	s, _ := one()
	if due := s.Next(noon, func(string) bool { return false }); len(due) != 0 {
		t.Error(due)
	}
	if due := s.Next(noon, always); len(due) != 1 {
		t.Error(due)
	}
}

func TestWhatCannotBeSentIsGivenUpInTime(t *testing.T) {
	s, d := one()
	never := func(string) bool { return false }
	if all := s.Overdue(noon.Add(GiveUpAfter-1), never); len(all) != 0 {
		t.Error(all)
	}
	if all := s.Overdue(noon.Add(GiveUpAfter), always); len(all) != 0 {
		t.Errorf("%v has a sink that takes it", all)
	}
	if all := s.Overdue(noon.Add(GiveUpAfter), never); len(all) != 1 || all[0] != d {
		t.Error(all)
	}
	for age, want := range map[time.Duration]time.Duration{0: GiveUpAfter, GiveUpAfter - 1: 1, GiveUpAfter: time.Hour,
		2 * GiveUpAfter: time.Hour} {
		if got := Until(noon.Add(-age), noon, GiveUpAfter).Sub(noon); got != want {
			t.Errorf("an event of %v ago is tried for %v, want %v", age, got, want)
		}
	}
}

func TestAStoppedTrySaysNothingAboutTheSink(t *testing.T) {
	s, d := one()
	s.Next(noon, always)
	if step := s.Ended(d, Outcome{End: Broken}, noon, 0); step != Wait || len(s.Failing()) != 0 {
		t.Error(step, s.Failing())
	}
	s.Next(noon, always)
	if step := s.Ended(d, Outcome{End: Refused, Why: "too long"}, noon, 0); step != GiveUp || len(s.Failing()) != 0 {
		t.Error(step, s.Failing())
	}
}

// A dead sink and hundreds of events: few tries, and the other sink is not held up. Once it lives, all arrive. Another
// node delivered it, or its shard has moved: the source of this Sync no longer has it.
func TestWhatIsGoneWhileItIsUnderWayIsNotTriedAgain(t *testing.T) {
	for _, o := range []Outcome{{End: Broken}, {End: Delivered}, {Why: "it answered 500"}} {
		s, d := one()
		s.Next(noon, always)
		s.Sync(nil)
		s.Ended(d, o, noon, 0.5)
		late := noon.Add(2 * GiveUpAfter)
		if due, overdue := s.Next(late, always), s.Overdue(late,
			func(string) bool { return false }); len(due)+len(overdue) > 0 {
			t.Errorf("after %+v: due %v, overdue %v", o, due, overdue)
		}
		s.Sync([]Waiting{{d, noon, noon.Add(GiveUpAfter)}})
		if due := s.Next(late, always); len(due) != 1 {
			t.Errorf("after %+v it waits again, and is due: %v", o, due)
		}
	}
}

func TestADeadSinkCostsLittleAndHoldsUpNobody(t *testing.T) {
	s := NewSchedule(Pace{})
	var all []Waiting
	for i := range 300 {
		all = append(all, Waiting{Delivery{"dead", fmt.Sprint("e", i)}, noon, noon.Add(GiveUpAfter)},
			Waiting{Delivery{"live", fmt.Sprint("e", i)}, noon, noon.Add(GiveUpAfter)})
	}
	r := rand.New(rand.NewPCG(1, 2))
	tries, done := map[string]int{}, map[Delivery]bool{}
	lives := false
	run := func(from, until time.Time) {
		for now := from; now.Before(until); now = now.Add(2 * time.Second) {
			var rest []Waiting
			for _, w := range all {
				if !done[w.Delivery] {
					rest = append(rest, w)
				}
			}
			s.Sync(rest)
			if len(rest) == 0 {
				return
			}
			due := s.Next(now, always)
			flying := map[string]int{}
			for _, d := range due {
				flying[d.Sink]++
				tries[d.Sink]++
			}
			if len(due) > AtOnce || flying["dead"] > SinkAtOnce || flying["live"] > SinkAtOnce {
				t.Fatalf("%v at once", flying)
			}
			for _, d := range due {
				o := Outcome{End: Delivered}
				if d.Sink == "dead" && !lives {
					o = Outcome{Why: "down"}
				}
				if s.Ended(d, o, now, r.Float64()) == Acknowledge {
					done[d] = true
				}
			}
		}
	}
	run(noon, noon.Add(time.Hour))
	if tries["live"] != 300 || tries["dead"] > 150 || s.Failing()["dead"] != "down" || s.Failing()["live"] != "" {
		t.Errorf("%v tries, failing %v", tries, s.Failing())
	}
	lives = true
	run(noon.Add(time.Hour), noon.Add(8*time.Hour))
	if len(done) != 600 || len(s.Failing()) != 0 {
		t.Errorf("%d of 600 arrived; failing %v", len(done), s.Failing())
	}
}
