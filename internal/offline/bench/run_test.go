package bench

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func countPlan(address string, protocol Protocol) Plan {
	return Plan{Addresses: []string{address}, Protocol: protocol, Policy: "once", KeyPrefix: `k"é-`,
		Fresh: true, Callers: 8, Count: 500}
}

func mustRun(t *testing.T, p Plan) *Report {
	t.Helper()
	report, err := Run(context.Background(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// A server that admits exactly its limit is called exact, over every protocol, with and without batches, and the server
// agrees with the ledger about what it admitted.
func TestExactServerIsCalledExact(t *testing.T) {
	for _, protocol := range []Protocol{JSON, Connect, GRPC, Stream, Client} {
		for _, batch := range []int{1, 7} {
			t.Run(string(protocol)+"/"+Grouped(uint64(batch)), func(t *testing.T) {
				fake := newFake(100)
				p := countPlan(fake.start(t), protocol)
				p.Batch = batch
				report := mustRun(t, p)
				if want := "exact: 100 admitted of 500, limit 100"; report.Verdict.Text != want || !report.Verdict.OK {
					t.Errorf("verdict %+v, want %q", report.Verdict, want)
				}
				if report.Admitted != 100 || report.Denied != 400 || report.Checks != 500 {
					t.Errorf("admitted %d, denied %d of %d", report.Admitted, report.Denied, report.Checks)
				}
				if got := fake.used[p.KeyName(0)]; got != 100 {
					t.Errorf("the server counted %d on the key, want 100: %v", got, fake.used)
				}
				if math.Abs(report.ServerCPUMicros-10) > 0.1 {
					t.Errorf("server CPU %g us per check, want 10", report.ServerCPUMicros)
				}
			})
		}
	}
}

// A check may name several keys, with or without a common tag.
func TestChecksOfSeveralKeys(t *testing.T) {
	for _, protocol := range []Protocol{JSON, GRPC, Stream, Client} {
		for _, batch := range []int{1, 3} {
			for _, together := range []bool{false, true} {
				fake := newFake(100)
				p := countPlan(fake.start(t), protocol)
				p.Batch, p.Entries, p.Together, p.KeyPrefix = batch, 3, together, "k-"
				if report := mustRun(t, p); !report.Verdict.OK {
					t.Errorf("%s: %s", protocol, report.Verdict.Text)
				}
				keys := []string{"k-0000000", "k-0000000/1", "k-0000000/2"}
				if together {
					keys = []string{"{k-0000000}", "{k-0000000}/1", "{k-0000000}/2"}
				}
				for _, key := range keys {
					if fake.used[key] != 100 {
						t.Errorf("%s, batch %d: %s has %d of 100: %v", protocol, batch, key, fake.used[key], fake.used)
					}
				}
			}
		}
	}
}

func TestOneUnitTooManyFailsTheRun(t *testing.T) {
	fake := newFake(100)
	fake.extra = 1
	report := mustRun(t, countPlan(fake.start(t), JSON))
	if report.Verdict.OK || !strings.Contains(report.Verdict.Text, "OVER-ADMITTED: 101 units") {
		t.Errorf("verdict %+v", report.Verdict)
	}
}

func TestOneUnitTooFewFailsTheRun(t *testing.T) {
	fake := newFake(100)
	fake.stingy = 1
	report := mustRun(t, countPlan(fake.start(t), Connect))
	if report.Verdict.OK || !strings.Contains(report.Verdict.Text, "UNDER-ADMITTED: 99 units") {
		t.Errorf("verdict %+v", report.Verdict)
	}
}

// Keys that may have been used before cannot show that too little was admitted, but still that it was too much.
func TestUsedKeysAreJudgedFromAboveOnly(t *testing.T) {
	fake := newFake(100)
	fake.stingy = 40
	p := countPlan(fake.start(t), JSON)
	p.Fresh = false
	if report := mustRun(t, p); !report.Verdict.OK || report.Verdict.Exact {
		t.Errorf("verdict %+v", report.Verdict)
	}
}

func TestManyKeysAndCost(t *testing.T) {
	for _, protocol := range []Protocol{GRPC, Client} {
		p := countPlan(newFake(10).start(t), protocol)
		p.Keys, p.Cost, p.Count = 20, 3, 2_000
		report := mustRun(t, p)
		if want := "exact: 180 admitted of 6,000 on 20 keys, limit 10 each"; report.Verdict.Text != want {
			t.Errorf("%s: verdict %+v, want %q", protocol, report.Verdict, want)
		}
	}
}

// Nine of ten checks go to exhausted keys.
func TestDeniedShare(t *testing.T) {
	fake := newFake(1_000_000)
	p := countPlan(fake.start(t), JSON)
	p.Keys, p.Denied, p.Count = 50, 90, 2_000
	report := mustRun(t, p)
	if !report.Verdict.OK || !report.Verdict.Exact {
		t.Errorf("verdict %+v", report.Verdict)
	}
	if share := float64(report.Denied) / float64(report.Checks); share < 0.85 || share > 0.95 {
		t.Errorf("%.0f %% of the checks were denied, want about 90 %%", 100*share)
	}
}

// An admission with a lost answer spent a unit without an acknowledgement: then 95 acknowledged of 100 are correct.
func TestLostAnswersAreNotMissed(t *testing.T) {
	fake := newFake(100)
	fake.lose = func(n int) bool { return n%20 == 0 }
	p := countPlan(fake.start(t), JSON)
	p.Callers = 1
	report := mustRun(t, p)
	if report.Admitted != 95 || report.Unknown != 25 || !report.Verdict.OK {
		t.Errorf("admitted %d, unknown %d, verdict %+v", report.Admitted, report.Unknown, report.Verdict)
	}
}

// A failure is not a denial, and a certain failure is not an unknown outcome.
func TestFailuresAreNamedByFate(t *testing.T) {
	for _, protocol := range []Protocol{JSON, Connect, GRPC, Stream} {
		for _, batch := range []int{1, 5} {
			fake := newFake(100)
			fake.fail = func(n int) error {
				switch {
				case n%10 == 0:
					return errOverloaded
				case n%25 == 1:
					return errUnknownOutcome
				}
				return nil
			}
			p := countPlan(fake.start(t), protocol)
			p.Batch = batch
			report := mustRun(t, p)
			if report.Failed != 50 || report.Unknown != 20 || !report.Verdict.OK {
				t.Errorf("%s, batch %d: failed %d, unknown %d, verdict %+v, errors %v", protocol, batch, report.Failed,
					report.Unknown, report.Verdict, report.Errors)
			}
		}
	}
}

// A connection that breaks before the answer leaves the outcome unknown, and the caller goes on with a new one.
func TestBrokenConnectionIsUnknown(t *testing.T) {
	for _, protocol := range []Protocol{JSON, Connect, GRPC, Stream, Client} {
		fake := newFake(100)
		fake.fail = func(n int) error {
			if n%50 == 0 {
				panic(http.ErrAbortHandler)
			}
			return nil
		}
		p := countPlan(fake.start(t), protocol)
		p.Callers = 2
		if protocol == Client {
			p.Callers = 1 // with two, one call of the client may carry both checks, and lose both
		}
		report := mustRun(t, p)
		if report.Unknown != 10 || report.Failed != 0 || report.Admitted != 100 || !report.Verdict.OK {
			t.Errorf("%s: unknown %d, failed %d, admitted %d, verdict %+v", protocol, report.Unknown, report.Failed,
				report.Admitted, report.Verdict)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	_, err := Run(context.Background(), Plan{Addresses: []string{"http://127.0.0.1:1"}, Policy: "once"}, nil)
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v", err)
	}
}

func TestUnknownPolicy(t *testing.T) {
	_, err := Run(context.Background(), Plan{Addresses: []string{newFake(1).start(t)}, Policy: "other"}, nil)
	if err == nil || !strings.Contains(err.Error(), `no policy "other"`) {
		t.Errorf("error %v", err)
	}
}

// Every call that was due during one stall of the server must show it, not only one.
func TestOpenLoopSeesAStallInEveryCallThatWaited(t *testing.T) {
	fake := newFake(1_000_000)
	fake.stall = 200 * time.Millisecond
	p := countPlan(fake.start(t), JSON)
	p.Callers, p.Rate, p.Count = 1, 1_000, 400
	report := mustRun(t, p)
	if report.Calls != 400 || report.Unsent != 0 {
		t.Errorf("%d calls, %d unsent, want 400 and 0", report.Calls, report.Unsent)
	}
	// About 200 of 400 calls were due during the stall; their median wait was 100 ms.
	if report.Latency.P90 < 50_000 {
		t.Errorf("p90 is %d us: the calls behind the stall were not measured from when they were due",
			report.Latency.P90)
	}
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	p := countPlan(newFake(1_000_000).start(t), Connect)
	p.Count, p.Rate, p.Duration = 0, 500, 400*time.Millisecond
	report := mustRun(t, p)
	if total := report.Calls + report.Unsent; total != 200 {
		t.Errorf("%d calls were due, want 200", total)
	}
}

func TestProgressAndCancellation(t *testing.T) {
	p := countPlan(newFake(1_000_000).start(t), JSON)
	p.Count, p.Duration = 0, time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	var seen Progress
	report, err := Run(ctx, p, func(now Progress) {
		if seen = now; seen.Checks > 0 { // a busy machine may not have made any yet
			cancel()
		}
	})
	if err != nil || seen.Checks == 0 || report.Checks < seen.Checks || !report.Verdict.OK {
		t.Errorf("error %v, progress %+v, report %+v", err, seen, report)
	}
}
