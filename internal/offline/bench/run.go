package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	stint "github.com/stint-io/stint/client"
)

// Progress is the progress of a run.
type Progress struct {
	Elapsed, Total                  time.Duration // Total 0: the run ends by count
	Checks, Count                   uint64        // Count 0: the run ends by time
	Admitted, Denied, Failed        uint64        // Failed includes the unknown ones
	ChecksPerSecond, CallsPerSecond float64       // since the last Progress
}

// progressEvery is how often a run reports its progress.
const progressEvery = 250 * time.Millisecond

// run is one run under way.
type run struct {
	plan     Plan
	ledger   *ledger
	tally    *tally
	schedule schedule
	clients  []client
	grpc     []*grpc.ClientConn // connections that protocols grpc and stream share
	shared   *stint.Client      // protocol client
	port     *redisPort         // protocol redis
	walked   atomic.Uint64      // keys that a walk has taken
}

// Run drives the server by the plan until the plan's end or the context's, and reports. It calls progress from one goroutine
// every 250 ms; nil is allowed. It fails when the plan is invalid, when the server does not know the policy, and when no
// check was decided at all. A failed audit is not an error: the report's verdict says so.
func Run(ctx context.Context, plan Plan, progress func(Progress)) (*Report, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	plan = plan.withDefaults()
	server := newServer(plan)
	rules, unbounded, err := server.rules(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{plan: plan, ledger: newLedger(plan.Keys + plan.drainedKeys()), tally: newTally(plan.Callers)}
	if err := r.dial(); err != nil {
		return nil, err
	}
	defer r.hangUp()
	if r.port != nil {
		defer r.port.close()
	}

	began := time.Now()
	if err := r.prepare(ctx, server, atRest(rules)); err != nil {
		return nil, err
	}
	before := r.figures(ctx, server)
	elapsed := r.drive(ctx, progress)
	// The context may have been canceled to end the run early; its figures are still needed.
	used := r.figures(context.WithoutCancel(ctx), server).since(before)

	report := r.report(elapsed)
	report.ServerCPUMicros = microsPerCheck(used.serverCPU, report.Decided())
	report.ClientCPUMicros = microsPerCheck(used.clientCPU, report.Decided())
	report.ForwardedShare = ratio(used.forwarded, float64(report.Decided()))
	report.MeanFrame = ratio(used.forwarded, used.frames)
	report.MeanBatch = ratio(used.decided, used.batches)
	if report.Decided() == 0 {
		return report, noDecision(report)
	}
	a := audit{plan, rules, span{began, time.Now(), plan.Fresh}}
	report.Verdict, err = r.verdict(a, unbounded)
	return report, err
}

// prepare brings the server into the run's initial state.
func (r *run) prepare(ctx context.Context, server *server, drained uint64) error {
	if r.port != nil {
		if err := r.port.prepare(); err != nil {
			return err
		}
	}
	return server.drain(ctx, r.ledger, drained)
}

// verdict audits the ledger, and deletes the keys on a Redis port that are not needed after the audit.
func (r *run) verdict(a audit, unbounded error) (v Verdict, err error) {
	switch {
	case r.plan.Protocol == Redis && r.plan.Work == Incr:
		v, err = r.port.judge(r.ledger)
	case unbounded != nil:
		for i := range r.ledger.accounts {
			v.Admitted += r.ledger.accounts[i].admitted.Load()
		}
		v.OK, v.Text = true, "not audited: "+unbounded.Error()
	default:
		v = a.judge(r.ledger)
	}
	if err == nil && r.port != nil && r.plan.Fresh && (r.plan.IsRedis || !r.plan.asksPolicy()) {
		err = r.port.sweep()
	}
	return v, err
}

// figures reads the figures of the servers under load.
func (r *run) figures(ctx context.Context, server *server) figures {
	f := server.figures(ctx)
	if r.plan.IsRedis {
		f.serverCPU = r.port.cpuSeconds()
	}
	return f
}

func noDecision(r *Report) error {
	for code, e := range r.Errors {
		return fmt.Errorf("no check was decided by %s: %s: %s", r.Address, code, e.Example)
	}
	return fmt.Errorf("no check was sent to %s: the run was over before it began", r.Address)
}

// dial creates the callers' clients. Connections open with the first call that needs them.
func (r *run) dial() (err error) {
	if r.plan.Protocol == Redis {
		r.port = newRedisPort(r.plan)
	}
	var targets []*url.URL
	for _, address := range r.plan.Addresses {
		target, err := url.Parse(address)
		if err != nil {
			return err
		}
		targets = append(targets, target)
	}
	if r.plan.Protocol == Client {
		if r.shared, err = stint.New(stint.Config{Addresses: r.plan.Addresses, TLS: r.plan.TLS, Token: r.plan.Token}); err != nil {
			return err
		}
	}
	if r.plan.sharesConnections() {
		doors := targets
		if len(r.plan.GRPC) > 0 {
			doors = nil
		}
		for _, address := range r.plan.GRPC {
			doors = append(doors, &url.URL{Scheme: targets[0].Scheme, Host: address})
		}
		if r.grpc, err = dialGRPC(doors, r.plan); err != nil {
			return err
		}
	}
	for i := range r.plan.Callers {
		r.clients = append(r.clients, r.newClient(targets, i))
	}
	return nil
}

func (r *run) newClient(targets []*url.URL, caller int) client {
	switch r.plan.Protocol {
	case Redis:
		return newRESP(r.plan, caller)
	case GRPC:
		return &grpcClient{conns: r.grpc, at: caller % len(r.grpc), codec: newWireCodec(r.plan), timeout: r.plan.Timeout}
	case Stream:
		return &streamClient{conns: r.grpc, at: caller % len(r.grpc), codec: newWireCodec(r.plan), timeout: r.plan.Timeout}
	case Client:
		return sharedClient{r.shared, r.plan}
	case Connect:
		return newHTTP1(targets, caller, newWireCodec(r.plan), r.plan)
	}
	return newHTTP1(targets, caller, newJSONCodec(r.plan), r.plan)
}

func (r *run) hangUp() {
	for _, c := range r.clients {
		c.close()
	}
	for _, c := range r.grpc {
		c.Close()
	}
	if r.shared != nil {
		r.shared.Close()
	}
}

// connections is the number of connections that carry the load. The Go client keeps one to each node.
func (r *run) connections() int {
	switch {
	case r.grpc != nil:
		return len(r.grpc)
	case r.shared != nil:
		return len(r.plan.Addresses)
	}
	return len(r.clients)
}

func (r *run) unsent() uint64 {
	if o, ok := r.schedule.(*openLoop); ok {
		return o.unsent.Load()
	}
	return 0
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
	for i := range r.clients {
		wg.Go(func() { r.call(ctx, i) })
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	r.watch(start, done, progress)
	return time.Since(start)
}

// call runs one caller.
func (r *run) call(ctx context.Context, caller int) {
	keys, fates := make([]uint32, r.plan.Batch), make([]fate, r.plan.Batch)
	client, stripe := r.clients[caller], r.tally.stripe(caller)
	for {
		checks, from, ok := r.schedule.next(ctx)
		if !ok {
			return
		}
		keys, fates := keys[:checks], fates[:checks]
		r.choose(keys)
		err := client.check(keys, fates)
		latency := time.Since(from)
		var failure *callError
		if err != nil {
			if failure = asCallError(err); !failure.partial {
				fill(fates, failure.fate)
			}
		}
		for i, key := range keys {
			r.ledger.enter(key, fates[i], r.plan.Cost)
		}
		stripe.record(latency, fates, failure)
		if failure != nil && failure.code == "connection" {
			pause(ctx)
		}
	}
}

func fill(fates []fate, f fate) {
	for i := range fates {
		fates[i] = f
	}
}

// pause keeps a caller from spinning while the server is away.
func pause(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}

// choose draws the keys of one call.
func (r *run) choose(keys []uint32) {
	drained := r.plan.drainedKeys()
	for i := range keys {
		switch {
		case r.plan.Walk:
			keys[i] = uint32((r.walked.Add(1) - 1) % uint64(r.plan.Keys))
		case drained > 0 && rand.IntN(100) < r.plan.DeniedPercent:
			keys[i] = uint32(r.plan.Keys + rand.IntN(drained))
		case r.plan.Keys > 1:
			keys[i] = uint32(rand.IntN(r.plan.Keys))
		default:
			keys[i] = 0
		}
	}
}

// watch reports progress until the callers are done.
func (r *run) watch(start time.Time, done <-chan struct{}, progress func(Progress)) {
	if progress == nil {
		<-done
		return
	}
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	var last Progress
	var lastCalls uint64
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		c := r.tally.counts()
		now := Progress{Elapsed: time.Since(start), Total: r.plan.Duration, Count: r.plan.Count,
			Admitted: c.admitted, Denied: c.denied, Failed: c.failed + c.unknown}
		now.Checks = now.Admitted + now.Denied + now.Failed
		now.ChecksPerSecond = perSecond(now.Checks-last.Checks, now.Elapsed-last.Elapsed)
		now.CallsPerSecond = perSecond(c.calls-lastCalls, now.Elapsed-last.Elapsed)
		last, lastCalls = now, c.calls
		progress(now)
	}
}
