package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

// Progress is the progress of a run.
type Progress struct {
	Elapsed, Total           time.Duration // Total is 0 if the run ends by count
	Checks, Count            uint64        // Count is 0 if the run ends by time
	Admitted, Denied, Failed uint64        // Failed includes the unknown ones
	ChecksPerSecond          float64       // since the last Progress
}

// Span is the time of a run, and whether its keys were fresh.
type Span struct {
	Began, Ended time.Time // before the first call was sent, after the last one was answered
	Fresh        bool      // no key was used before
}

// progressEvery is how often a run reports its progress.
const progressEvery = 250 * time.Millisecond

// run is one run under way.
type run struct {
	plan     Plan
	port     Port
	ledger   *Ledger
	stats    *stats
	schedule schedule
	walked   atomic.Uint64 // keys that a walk has taken
}

// Run drives stint's API by the plan, as Drive does.
func Run(ctx context.Context, plan Plan, progress func(Progress)) (*Report, error) {
	if err := plan.Check(); err != nil {
		return nil, err
	}
	port, err := NewAPI(ctx, plan)
	if err != nil {
		return nil, err
	}
	return Drive(ctx, plan, port, progress)
}

// Drive drives a port by the plan until the plan's end or the context's, reports, and closes the port. It calls
// progress from one goroutine every 250 ms; nil is allowed. It fails if the port cannot be prepared, or if no check was
// decided at all. A failed audit is not an error: the report's verdict says so.
func Drive(ctx context.Context, plan Plan, port Port, progress func(Progress)) (*Report, error) {
	defer port.Close()
	plan = plan.WithDefaults()
	r := &run{
		plan:   plan,
		port:   port,
		ledger: newLedger(plan.Keys + plan.drainedKeys()),
		stats:  newStats(plan.Callers),
	}
	began := time.Now()
	if err := port.Prepare(ctx, r.ledger); err != nil {
		return nil, err
	}
	before := r.figures(ctx)
	elapsed := r.drive(ctx, progress)
	// The context may have been canceled to end the run early; its figures are still needed.
	used := r.figures(context.WithoutCancel(ctx))
	for name := range used {
		used[name] -= before[name]
	}
	report := r.report(elapsed, used)
	if report.Decided() == 0 {
		return report, noDecision(report)
	}
	var err error
	report.Verdict, err = port.Judge(r.ledger, Span{began, time.Now(), plan.Fresh})
	return report, err
}

// clientCPU is the name of the generator's own processor time among the figures.
const clientCPU = "client_cpu_seconds_total"

// figures reads the figures of the servers under load, and the generator's processor time.
func (r *run) figures(ctx context.Context) map[string]float64 {
	figures := r.port.Figures(ctx)
	figures[clientCPU] = cpuSeconds()
	return figures
}

// cpuSeconds returns the processor time of this process, or 0 if unknown.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func noDecision(r *Report) error {
	for code, e := range r.Errors {
		return fmt.Errorf("no check was decided by %s: %s: %s", r.Address, code, e.Example)
	}
	return fmt.Errorf("no check was sent to %s: the run was over before it began", r.Address)
}

// drive starts the callers and waits for them. It returns how long the load lasted.
func (r *run) drive(ctx context.Context, progress func(Progress)) time.Duration {
	start := time.Now()
	b := newBudget(r.plan, start)
	r.schedule = closedLoop{b}
	var wg sync.WaitGroup
	if r.plan.Rate > 0 {
		open := newOpenLoop(b, r.plan.Rate)
		r.schedule = open
		wg.Go(func() { open.pace(ctx, start) })
	}
	for i := range r.plan.Callers {
		wg.Go(func() { r.call(ctx, i) })
	}
	running, done := context.WithCancel(context.Background())
	go func() {
		wg.Wait()
		done()
	}()
	r.watch(running, start, progress)
	return time.Since(start)
}

// call runs one caller.
func (r *run) call(ctx context.Context, number int) {
	keys, fates := make([]uint32, r.plan.Batch), make([]Fate, r.plan.Batch)
	caller, stripe := r.port.Caller(number), r.stats.stripe(number)
	defer caller.Close()
	for {
		checks, from, ok := r.schedule.next(ctx)
		if !ok {
			return
		}
		keys, fates := keys[:checks], fates[:checks]
		r.choose(keys)
		failure := caller.Check(keys, fates)
		latency := time.Since(from)
		for i, key := range keys {
			r.ledger.enter(key, fates[i], r.plan.Cost)
		}
		stripe.record(latency, fates, failure)
		if failure != nil && failure.Code == ConnectionLost {
			sleep.For(ctx, 20*time.Millisecond) // rather than spin while the server is away
		}
	}
}

// choose draws the keys of one call.
func (r *run) choose(keys []uint32) {
	drained := r.plan.drainedKeys()
	for i := range keys {
		switch {
		case r.plan.Walk:
			keys[i] = uint32((r.walked.Add(1) - 1) % uint64(r.plan.Keys))
		case drained > 0 && rand.IntN(100) < r.plan.Denied:
			keys[i] = uint32(r.plan.Keys + rand.IntN(drained))
		default:
			keys[i] = uint32(rand.IntN(r.plan.Keys))
		}
	}
}

// watch reports progress until the callers are done.
func (r *run) watch(running context.Context, start time.Time, progress func(Progress)) {
	if progress == nil {
		<-running.Done()
		return
	}
	var last Progress
	for sleep.For(running, progressEvery) {
		c := r.stats.counts()
		now := Progress{
			Elapsed:  time.Since(start),
			Total:    r.plan.Duration,
			Checks:   c.checks(),
			Count:    r.plan.Count,
			Admitted: c.by[Allowed],
			Denied:   c.by[Denied],
			Failed:   c.by[Failed] + c.by[Unknown],
		}
		now.ChecksPerSecond = perSecond(now.Checks-last.Checks, now.Elapsed-last.Elapsed)
		last = now
		progress(now)
	}
}
