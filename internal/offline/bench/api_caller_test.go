package bench

import (
	"testing"
	"testing/synctest"
	"time"
)

// A caller keeps its stream, and a call is one message, even if it has only one check.
func TestACallerHasOneStream(t *testing.T) {
	for _, batch := range []int{1, 5} {
		fake := newFake(100)
		p := countPlan(fake.start(t), Stream)
		p.Batch, p.Callers = batch, 3
		report := mustRun(t, p)
		streams := 0
		for _, calls := range fake.calledAt() {
			streams += calls
		}
		if streams > 3 || fake.messages != 500/batch || report.Calls != 500/uint64(batch) {
			t.Errorf("batch %d: %d calls in %d messages by %d streams", batch, report.Calls, fake.messages, streams)
		}
	}
}

// A stream that the server has ended loses only the batch that was about to use it, and that batch was certainly not
// counted.
func TestAStreamThatEndsIsOpenedAgain(t *testing.T) {
	fake := newFake(100)
	fake.drain = true
	p := countPlan(fake.start(t), Stream)
	p.Callers, p.Count = 1, 100
	report := mustRun(t, p)
	if report.Admitted != 50 || report.Failed != 50 || !report.Verdict.OK {
		t.Errorf("admitted %d, failed %d, unknown %d: %+v", report.Admitted, report.Failed, report.Unknown,
			report.Verdict)
	}
}

// A message without an answer in time is unknown, and the caller continues on a new stream.
func TestAStreamThatIsNotAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // else a busy machine answers the others too late as well
		fake := newFake(100)
		fake.stall = 2 * time.Second
		p := countPlan(fake.startInMemory(t), Stream)
		p.Callers, p.Count, p.Timeout = 1, 10, 100*time.Millisecond
		report := mustRun(t, p)
		time.Sleep(fake.stall) // no time passes when a bubble ends
		if report.Admitted != 9 || report.Unknown != 1 || report.Errors["deadline_exceeded"] == nil ||
			report.Latency.Max > 110_000 {
			t.Errorf("%+v, errors %v", report, report.Errors)
		}
	})
}

// There are enough connections for the streams of all callers, with at most a thousand each.
func TestConnectionsHaveRoomForEveryStream(t *testing.T) {
	for callers, want := range map[int]int{1: 1, 64: 2, 2_000: 2, 2_001: 3, 16_384: 17} {
		p := Plan{Addresses: []string{"http://x"}, Protocol: Stream, Callers: callers}
		if got := p.WithDefaults().Connections; got != want {
			t.Errorf("%d callers: %d connections, want %d", callers, got, want)
		}
	}
}

// The callers share one client: it batches concurrent checks, and retries those that were certainly not counted.
func TestTheGoClientGathersAndAsksAgain(t *testing.T) {
	fake := newFake(1_000)
	fake.fail = func(n int) error {
		if n%50 == 0 {
			return errOverloaded
		}
		return nil
	}
	p := countPlan(fake.start(t), Client)
	p.Callers = 64
	report := mustRun(t, p)
	calls := 0
	for _, n := range fake.calledAt() {
		calls += n
	}
	if calls >= 250 || report.Calls != 500 || report.Admitted != 500 || !report.Verdict.Exact {
		t.Errorf("%d checks in %d calls: %+v", report.Calls, calls, report)
	}
}

// A check with an outcome that the client does not know is unknown, with a reason, alone and in a batch.
func TestTheGoClientNamesFailuresByFate(t *testing.T) {
	for _, batch := range []int{1, 5} {
		fake := newFake(100)
		fake.fail = func(n int) error {
			if n%50 == 0 {
				return errUnknownOutcome
			}
			return nil
		}
		p := countPlan(fake.start(t), Client)
		p.Batch = batch
		report := mustRun(t, p)
		if report.Unknown != 10 || report.Failed != 0 || !report.Verdict.OK || report.Errors["aborted"] == nil {
			t.Errorf("batch %d: unknown %d, failed %d, verdict %+v, errors %v",
				batch, report.Unknown, report.Failed, report.Verdict, report.Errors)
		}
	}
}
