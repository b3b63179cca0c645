package peer

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stint-io/stint/cluster/placement"
)

// ward is a set of nodes that answer questions over in-memory connections, for synctest bubbles.
type ward struct {
	t     *testing.T
	known *addresses
	dials atomic.Int32

	mu  sync.Mutex
	net map[string]*memory // by address, which is the node's name
}

func newWard(t *testing.T) *ward {
	return &ward{t: t, known: new(addresses), net: map[string]*memory{}}
}

func (w *ward) dial(ctx context.Context, addr string) (net.Conn, error) {
	w.dials.Add(1)
	w.mu.Lock()
	m := w.net[addr]
	w.mu.Unlock()
	return m.dial(ctx, addr)
}

// admit opens the port of a node.
func (w *ward) admit(node string, answer func(string, placement.Question) placement.Report) *Port {
	w.t.Helper()
	m := newMemory()
	w.mu.Lock()
	w.net[node] = m
	w.mu.Unlock()
	p := openPort(w.t, w.known, node, m.use, answering(answer), func(c *Config) { c.Dial = w.dial })
	w.known.set(node, node)
	return p
}

// clock answers with a clock that is ahead of all others.
func clock(ahead time.Duration) func(string, placement.Question) placement.Report {
	return func(string, placement.Question) placement.Report {
		return placement.Report{WallMicros: time.Now().Add(ahead).UnixMicro()}
	}
}

// pulse starts asking others, on behalf of a node n1 with its own port.
func (w *ward) pulse(others []string, edit ...func(*HealthProbeConfig)) *HealthProbe {
	w.t.Helper()
	config := HealthProbeConfig{Node: "n1", Others: func() []string {
		return others
	}, Question: func() placement.Question { return placement.Question{} },
		Dial: w.admit("n1", clock(0)).DialAsk, OnReport: func(placement.Report) {}, Logger: quiet}
	for _, e := range edit {
		e(&config)
	}
	p := StartHealthProbe(config)
	w.t.Cleanup(p.Stop)
	return p
}

func wantOffset(t *testing.T, p *HealthProbe, want time.Duration, nodes ...string) {
	t.Helper()
	if got, ok := p.Offset(nodes); !ok || got != want {
		t.Errorf("ahead of %v by %v, %v; want %v", nodes, got, ok, want)
	}
}

func wantNoOffset(t *testing.T, p *HealthProbe, nodes ...string) {
	t.Helper()
	if got, ok := p.Offset(nodes); ok {
		t.Errorf("ahead of %v by %v; want no measurement", nodes, got)
	}
}

func TestAPulseKnowsWhatTheOthersSaidAndHowTheirClocksGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.admit("n2", clock(500*time.Millisecond))
		w.admit("n3", clock(-3*time.Second))
		w.admit("n4", func(from string, q placement.Question) placement.Report { // it is slow in both directions
			time.Sleep(70 * time.Millisecond)
			defer time.Sleep(70 * time.Millisecond)
			ahead := time.Now().Add(5 * time.Second)
			return placement.Report{WallMicros: ahead.UnixMicro(), TableVersion: q.Versions["table"],
				KeyLines: []string{from}}
		})
		var heard [3]atomic.Int32
		p := w.pulse([]string{"n1", "n2", "n3", "n4"}, func(c *HealthProbeConfig) {
			c.Question = func() (q placement.Question) { q.Versions = map[string]uint64{"table": 7}; return q }
			c.OnReport = func(r placement.Report) { heard[r.Node[1]-'2'].Add(1) }
		})
		time.Sleep(450 * time.Millisecond)
		reports := p.Reports()
		if got := slices.Sorted(maps.Keys(reports)); !slices.Equal(got, []string{"n2", "n3", "n4"}) {
			t.Errorf("reports of %v", got)
		}
		if got := reports["n4"]; got.TableVersion != 7 || !slices.Equal(got.KeyLines, []string{"n1"}) {
			t.Errorf("n4 said %+v", got)
		}
		wantOffset(t, p, 0, "n1")
		wantOffset(t, p, 0, "n1", "n2", "n3")
		wantOffset(t, p, -500*time.Millisecond, "n1", "n2", "n4")
		wantOffset(t, p, 0, "n1", "n2")
		wantOffset(t, p, 3*time.Second, "n3")
		wantOffset(t, p, -5*time.Second, "n4")
		wantOffset(t, p, 0, "n1", "n2", "n5")
		wantNoOffset(t, p)
		wantNoOffset(t, p, "n5")
		wantNoOffset(t, p, "n1", "n5")
		wantNoOffset(t, p, "n1", "n2", "n5", "n6")
		time.Sleep(10 * time.Second)
		for i := range heard {
			if n := heard[i].Load(); n < 15 || n > 21 {
				t.Errorf("n%d was heard %d times in 10 s", i+2, n)
			}
		}
		if n := w.dials.Load(); n != 3 {
			t.Errorf("%d connections were made to 3 nodes", n)
		}
	})
}

// Of three clocks two are right. When one of these does not answer, the wrong one must not move shard time: a window
// that ends 2.5 s early admits twice.
func TestWithoutAMajorityThatAgreesNobodyKnowsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.admit("n2", clock(0))
		w.admit("n3", clock(5*time.Second))
		w.admit("n4", clock(5*time.Second))
		p := w.pulse([]string{"n2", "n3", "n4", "n5"})
		synctest.Wait()
		wantOffset(t, p, 0, "n1", "n2", "n3")
		wantNoOffset(t, p, "n1", "n3", "n5")
		wantNoOffset(t, p, "n1", "n3")
		wantNoOffset(t, p, "n1", "n2", "n3", "n4")
		wantNoOffset(t, p, "n1", "n3", "n4", "n5", "n6") // n5 and n6 may be right just as well as n1
		wantOffset(t, p, -5*time.Second, "n1", "n3", "n4")
	})
}

func TestTheOwnClockIsTheOneThatIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.admit("n2", clock(time.Second))
		w.admit("n3", clock(time.Second))
		p := w.pulse([]string{"n2", "n3"}, func(c *HealthProbeConfig) {
			c.Now = func() time.Time { return time.Now().Add(time.Hour) }
		})
		synctest.Wait()
		wantOffset(t, p, time.Hour-time.Second, "n1", "n2", "n3")
	})
}

func TestANodeThatHangsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		release := make(chan struct{})
		w.admit("n2", func(string, placement.Question) placement.Report { <-release; return placement.Report{} })
		w.admit("n3", clock(0))
		var heard atomic.Int32
		p := w.pulse([]string{"n2", "n3", "nobody"}, func(c *HealthProbeConfig) {
			c.OnReport = func(placement.Report) { heard.Add(1) }
		})
		synctest.Wait()
		if got := p.Silent(); got["n2"] != 0 || got["n3"] != 0 || len(got) != 3 {
			t.Errorf("at once: %v", got)
		}
		for _, after := range []time.Duration{4 * time.Second, 56 * time.Second} {
			time.Sleep(after)
			synctest.Wait()
		}
		silent := p.Silent()
		if silent["n2"] < 59*time.Second || silent["n2"] > time.Minute+time.Second || silent["n3"] != 0 ||
			silent["nobody"] < 59*time.Second {
			t.Errorf("after a minute: %v", silent)
		}
		if n := heard.Load(); n != 121 {
			t.Errorf("n3 was heard %d times in a minute", n)
		}
		close(release)
		time.Sleep(3 * time.Second)
		if got := p.Silent()["n2"]; got != 0 {
			t.Errorf("n2 answers, and is said to be silent for %v", got)
		}
	})
}

func TestWhatWasHeardLongAgoIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		n2 := w.admit("n2", clock(500*time.Millisecond))
		w.admit("n3", clock(0))
		p := w.pulse([]string{"n2", "n3"})
		synctest.Wait()
		n2.Close()
		time.Sleep(freshFor - time.Millisecond)
		if _, ok := p.Reports()["n2"]; !ok {
			t.Error("its last report is forgotten too early")
		}
		wantOffset(t, p, 0, "n1", "n2")
		time.Sleep(2 * time.Millisecond)
		if report, ok := p.Reports()["n2"]; ok {
			t.Errorf("still repeated: %+v", report)
		}
		wantNoOffset(t, p, "n1", "n2")
		wantOffset(t, p, 0, "n1", "n2", "n3")
	})
}

func TestASlowMeasurementCountsOnlyIfNoneIsBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		var back atomic.Int64 // delay of the answer
		w.admit("n2", func(string, placement.Question) placement.Report {
			defer func() { time.Sleep(time.Duration(back.Load())) }()
			return clock(0)("", placement.Question{})
		})
		p := w.pulse([]string{"n2"})
		synctest.Wait()
		wantOffset(t, p, 0, "n2")
		back.Store(int64(700 * time.Millisecond))
		time.Sleep(4 * time.Second) // three or four slow ones
		wantOffset(t, p, 0, "n2")
		time.Sleep(2 * time.Second)
		wantOffset(t, p, 350*time.Millisecond, "n2") // wrong by half the round trip, but the only measurement
		back.Store(int64(time.Second))
		time.Sleep(7 * time.Second)
		wantNoOffset(t, p, "n2") // a measurement that can be wrong by half a second does not count
		back.Store(int64(400 * time.Millisecond))
		time.Sleep(3 * time.Second)
		wantOffset(t, p, 200*time.Millisecond, "n2")
		back.Store(0)
		time.Sleep(time.Second)
		wantOffset(t, p, 0, "n2")
	})
}

func TestAKickAsksEverybodyAtOnceAndWhoIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.admit("n2", clock(0))
		w.admit("n3", clock(0))
		var others atomic.Pointer[[]string]
		others.Store(&[]string{"n2"})
		var heard sync.Map
		p := w.pulse(nil, func(c *HealthProbeConfig) {
			c.Others = func() []string { return *others.Load() }
			c.Every = time.Hour
			c.OnReport = func(r placement.Report) {
				n, _ := heard.LoadOrStore(r.Node, new(atomic.Int32))
				n.(*atomic.Int32).Add(1)
			}
		})
		count := func(node string) int32 {
			n, ok := heard.Load(node)
			if !ok {
				return 0
			}
			return n.(*atomic.Int32).Load()
		}
		synctest.Wait()
		others.Store(&[]string{"n2", "n3"})
		p.Kick()
		synctest.Wait()
		if count("n2") != 2 || count("n3") < 1 {
			t.Errorf("after a kick n2 was heard %d times and n3 %d times", count("n2"), count("n3"))
		}
		others.Store(&[]string{"n3"})
		p.Kick()
		synctest.Wait()
		if _, ok := p.Silent()["n2"]; ok || len(p.Reports()) != 1 {
			t.Errorf("n2 is not one of the others any more: %v, %v", p.Silent(), p.Reports())
		}
		if count("n2") != 2 {
			t.Error("n2 was still asked")
		}
	})
}

func TestABrokenConnectionIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		w.admit("n2", clock(0)).Close()
		p := w.pulse([]string{"n2"})
		time.Sleep(10 * time.Second)
		if got := p.Silent()["n2"]; got < 9*time.Second {
			t.Errorf("a closed port is silent for %v", got)
		}
		w.admit("n2", clock(time.Second))
		time.Sleep(time.Second)
		if got := p.Silent()["n2"]; got != 0 {
			t.Errorf("it is back, and silent for %v", got)
		}
		wantOffset(t, p, -time.Second, "n2")
	})
}

// Another question goes over the connection for questions about health, without a word about that.
func TestAnotherQuestionNeedsNoConnectionOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		port := w.admit("n2", func(_ string, q placement.Question) placement.Report {
			if q.Died != "" {
				time.Sleep(100 * time.Millisecond)
				return placement.Report{Survivors: []placement.Survivor{{Name: q.Died}}}
			}
			return placement.Report{WallMicros: time.Now().UnixMicro()}
		})
		p := w.pulse([]string{"n2"})
		ask := func(node string, within time.Duration) (placement.Report, error) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return p.Ask(ctx, node, placement.Question{Died: "n3"})
		}
		time.Sleep(time.Second)
		dials := w.dials.Load()
		for range 20 { // for longer than it takes until a node counts as silent
			report, err := ask("n2", time.Second)
			if err != nil || len(report.Survivors) != 1 || report.Survivors[0].Name != "n3" {
				t.Fatalf("n2 answers %+v, %v", report, err)
			}
		}
		if w.dials.Load() != dials || len(p.Reports()["n2"].Survivors) != 0 || p.Silent()["n2"] != 0 {
			t.Errorf("%d dials for other questions; the report is %+v; silent for %v", w.dials.Load()-dials,
				p.Reports()["n2"], p.Silent()["n2"])
		}
		if _, err := ask("n2", time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an answer that takes longer than the asker waits: %v", err)
		}
		if _, err := ask("n4", time.Second); !errors.Is(err, errNotConnected) {
			t.Errorf("a node that is not asked: %v", err)
		}
		port.Close()
		time.Sleep(10 * time.Second)
		if _, err := ask("n2", time.Second); !errors.Is(err, errNotConnected) {
			t.Errorf("a node that does not answer: %v", err)
		}
	})
}

func TestAForgottenReportIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		answers := make(chan struct{}, 1)
		answers <- struct{}{}
		w.admit("n2", func(string, placement.Question) placement.Report {
			<-answers
			return placement.Report{}
		})
		p := w.pulse([]string{"n2"}, func(c *HealthProbeConfig) { c.Every = time.Hour })
		synctest.Wait()
		if len(p.Reports()) != 1 {
			t.Fatalf("reports are %v", p.Reports())
		}
		p.Forget("n2")
		p.Forget("n4")
		synctest.Wait()
		if len(p.Reports()) != 0 {
			t.Errorf("after they were forgotten the reports are %v", p.Reports())
		}
		answers <- struct{}{}
		synctest.Wait()
		if len(p.Reports()) != 1 {
			t.Errorf("asked again at once, the reports are %v", p.Reports())
		}
	})
}

func TestStopDoesNotWaitForANodeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t)
		release := make(chan struct{})
		w.admit("n2", func(string, placement.Question) placement.Report { <-release; return placement.Report{} })
		p := w.pulse([]string{"n2"}, func(c *HealthProbeConfig) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, node string) (net.Conn, error) {
				if node == "n3" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return dial(ctx, node)
			}
			c.Others = func() []string { return []string{"n2", "n3"} }
		})
		synctest.Wait()
		begin := time.Now()
		p.Stop()
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
		close(release)
	})
}

// A process that was paused for an hour has asked no node for an hour.
func TestAPauseOfOurOwnIsNotTheOthersSilence(t *testing.T) {
	var now time.Time
	config := HealthProbeConfig{Now: func() time.Time { return now }, Logger: quiet}.withDefaults()
	now = time.Unix(1e9, 0)
	a := &asker{config: &config, node: "n2", counted: now}
	const most = probeEvery + dialWithin + askWithin
	now = now.Add(time.Hour)
	if got := a.silence(now); got > most {
		t.Errorf("just awake: silent for %v", got)
	}
	a.failed(errors.New("no answer"))
	now = now.Add(time.Second)
	a.failed(errors.New("no answer"))
	if got := a.silence(now); got < time.Second || got > most+2*time.Second {
		t.Errorf("after another second: silent for %v", got)
	}
	a.heard(placement.Report{}, now, now)
	if got := a.silence(now); got != 0 {
		t.Errorf("it answered: silent for %v", got)
	}
}

// A time service may set the clock of a freshly started node before the node owns anything. Measurements made with the
// old clock would then open an epoch as far ahead as the clock was set.
func TestAMeasurementEndsWithTheClockThatItWasMadeWith(t *testing.T) {
	config := HealthProbeConfig{Logger: quiet}.withDefaults()
	asked := time.Now()
	answered := asked.Add(10 * time.Millisecond)
	for _, c := range []struct {
		what          string
		answered, now time.Time
		want          bool
	}{
		{"nothing", answered, answered.Add(time.Second), true},
		{"a step after it", answered, setForward(answered.Add(time.Second)), false},
		{"a step during it", setForward(answered), setForward(answered.Add(time.Second)), false},
	} {
		a := &asker{config: &config, node: "n2"}
		a.heard(placement.Report{WallMicros: asked.UnixMicro()}, asked, c.answered)
		if _, ok := a.clockAhead(c.now); ok != c.want {
			t.Errorf("%s: it counts: %v, want %v", c.what, ok, c.want)
		}
		if _, ok := a.latest(c.now); !ok {
			t.Errorf("%s: the report is forgotten", c.what)
		}
	}
}

// setForward moves the wall reading of t by a minute and keeps its monotonic reading, which no method of package time
// does: the first word of a time with such a reading holds its seconds in the 33 bits above the nanoseconds' 30.
func setForward(t time.Time) time.Time {
	word := (*uint64)(unsafe.Pointer(&t))
	*word += 60 << 30
	return t
}

func TestAClockMaySayAnything(t *testing.T) {
	for _, c := range []struct {
		theirs, ours int64
		want         time.Duration
	}{
		{1_500_000, 1_000_000, 500 * time.Millisecond},
		{1_000_000, 1_500_000, -500 * time.Millisecond},
		{1 << 62, 1e15, clockMax},
		{-1 << 63, 1e15, -clockMax},
		{1<<63 - 1, -1e15, clockMax},
	} {
		if got := clockAhead(c.theirs, c.ours); got != c.want {
			t.Errorf("%d is ahead of %d by %v, want %v", c.theirs, c.ours, got, c.want)
		}
	}
}

func TestAPulseOverSockets(t *testing.T) {
	noLeaks(t)
	n1, _ := joinedPorts(t, answering(clock(time.Hour)))
	heard := make(chan placement.Report, 1)
	p := StartHealthProbe(HealthProbeConfig{Node: "n1", Others: func() []string {
		return []string{"n2"}
	}, Dial: n1.DialAsk,
		Question: func() placement.Question {
			return placement.Question{}
		}, Every: time.Hour, OnReport: func(r placement.Report) { heard <- r }, Logger: quiet})
	defer p.Stop()
	if r := <-heard; r.Node != "n2" {
		t.Errorf("heard %+v", r)
	}
	if ahead, ok := p.Offset([]string{"n2"}); !ok || (ahead+time.Hour).Abs() > time.Minute {
		t.Errorf("ahead by %v, %v", ahead, ok)
	}
}
