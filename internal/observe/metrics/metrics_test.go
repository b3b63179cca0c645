package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/metrics"
)

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	text, _ := scrapeAs(t, m, "")
	return text
}

// scrapeAs scrapes with an Accept header; "": none.
func scrapeAs(t *testing.T, m *metrics.Metrics, accept string) (text, kind string) {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	m.Handler().ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("scrape answered %d", w.Code)
	}
	return w.Body.String(), w.Header().Get("Content-Type")
}

// event is a check that came to an outcome.
func event(outcome string) decisions.Event {
	return decisions.Event{Method: "/stint.v1.LimitService/Check", Code: "ok", Took: 300 * time.Microsecond,
		Counted: []decisions.Count{{Name: "login", Kind: outcome, N: 1}}}
}

func oneOfEach(m *metrics.Metrics) {
	m.Denied("default", "login", "minute")
	m.Health(func() metrics.Health {
		at := time.Unix(1_000_000, 0)
		return metrics.Health{Ready: true, ShardsUnowned: 3, DiskLow: true, Convicted: 4, Distrusted: at,
			LastBackup: at, ClockAhead: time.Second, ClockKnown: true,
			CertificateEnds: map[string]time.Time{"api": at, "peer": {}}, SumsAgreed: map[uint32]time.Time{2: at},
			TopBytes: 8, DiskFree: 9 << 30, RecordsMost: 1 << 30, WantedShards: 3,
			Slots: map[uint32]int{0: 683, 1: 341}, SlotsToMove: 342, SlotsMoving: 2,
			HopRequests: 7, HopFrames: 2, DenialsKept: 5, LeasesHeld: 6, Edges: 4, ShardsStopped: 2,
			Replicas: map[uint32]metrics.Replica{2: {Keys: 12345, Bytes: 999, LegsOpen: 6,
				PolicyKeys: map[string]int{"login": 95}}}}
	})
	m.EventTried("billing", true)
	m.EventTried("billing", false)
	m.Spike("login")
	m.BillSkipped("stripe")
	m.SinkFailing("billing", true)
	m.SinkFailing("mended", true)
	m.SinkFailing("mended", false)
	m.EventsWaiting(2, 11, 12)
	m.EventsLost(2, 13)
	m.EventsLost(2, 13) // it is a sum
	call := event("denied")
	m.Ended(&call)
	m.Batch(2, 64, 1, 900)
	m.Commit(2, time.Millisecond)
	m.Append(200*time.Microsecond, 3)
	m.Epoch(2, 77)
	m.Drop(2, "epoch")
	m.Frozen(2)
	m.Full(2)
	m.Capped(2)
	m.CanaryHeard(2, time.Unix(1_000_000, 0))
	m.CanaryViolated(2, "lost")
	m.SlotMoved()
	m.Ended(&decisions.Event{System: "redis", Took: time.Millisecond,
		Commands: []decisions.Count{{Name: "incr", Kind: "ok", N: 16}}})
	m.Connections(3)
	m.Connected("api", 11)
	m.Refused("api", "full")
	m.SpansExported(3)
	m.SpansDropped("queue", 2)
	m.Cut("redis", 4)
	m.DecisionLogDropped("full", 6)
}

func TestEverySeriesIsScraped(t *testing.T) {
	m := metrics.New()
	oneOfEach(m)
	text := scrape(t, m)
	for _, line := range []string{
		`stint_decisions_total{outcome="denied",policy="login"} 1`,
		`stint_request_duration_seconds_count{code="ok",procedure="/stint.v1.LimitService/Check"} 1`,
		`stint_request_duration_seconds_bucket{code="ok",procedure="/stint.v1.LimitService/Check",le="0.0002"} 0`,
		`stint_request_duration_seconds_bucket{code="ok",procedure="/stint.v1.LimitService/Check",le="0.0004"} 1`,
		`stint_batch_requests_sum{shard="2"} 64`,
		`stint_batch_effects_sum{shard="2"} 1`,
		`stint_batch_bytes_sum{shard="2"} 900`,
		`stint_commit_duration_seconds_sum{shard="2"} 0.001`,
		`stint_log_append_duration_seconds_sum 0.0002`,
		`stint_log_append_entries_sum 3`,
		`stint_epoch{shard="2"} 77`,
		`stint_dropped_entries_total{reason="epoch",shard="2"} 1`,
		`stint_keys{shard="2"} 12345`,
		`stint_record_bytes{shard="2"} 999`,
		`stint_time_frozen_total{shard="2"} 1`,
		`stint_memory_full_total{shard="2"} 1`,
		`stint_keys_refused_total{shard="2"} 1`,
		`stint_policy_keys{policy="login",shard="2"} 95`,
		`stint_legs_open{shard="2"} 6`,
		`stint_canary_timestamp_seconds{shard="2"} 1e+06`,
		`stint_canary_violations_total{kind="doubled",shard="2"} 0`,
		`stint_canary_violations_total{kind="lost",shard="2"} 1`,
		`stint_hop_requests_total 7`,
		`stint_denials_kept 5`,
		`stint_leases_held 6`,
		`stint_denials_total{limit="minute",namespace="default",policy="login"} 1`,
		`stint_ready 1`,
		`stint_shards_unowned 3`,
		`stint_disk_low 1`,
		`stint_shards_wanted 3`,
		`stint_slots{shard="0"} 683`,
		`stint_slots_to_move 342`,
		`stint_slots_moving 2`,
		`stint_slots_moved_total 1`,
		`stint_replicas_convicted 4`,
		`stint_disk_distrusted_timestamp_seconds 1e+06`,
		`stint_last_backup_timestamp_seconds 1e+06`,
		`stint_certificate_expiry_timestamp_seconds{port="api"} 1e+06`,
		`stint_sums_agreed_timestamp_seconds{shard="2"} 1e+06`,
		`stint_clock_ahead_seconds 1`,
		`stint_top_bytes 8`,
		`stint_shards_stopped 2`,
		`stint_hop_frames_total 2`,
		`stint_redis_commands_total{code="ok",command="incr"} 16`,
		`stint_redis_round_duration_seconds_count 1`,
		`stint_redis_connections 3`,
		`stint_events_delivered_total{sink="billing"} 1`,
		`stint_event_tries_failed_total{sink="billing"} 1`,
		`stint_sink_failing{sink="billing"} 1`,
		`stint_events_waiting{shard="2"} 11`,
		`stint_spikes_total{policy="login"} 1`,
		`stint_bills_skipped_total{sink="stripe"} 1`,
		`stint_events_dead{shard="2"} 12`,
		`stint_events_lost_total{shard="2"} 13`,
		`stint_connections{port="api"} 11`,
		`stint_connections_refused_total{port="api",why="full"} 1`,
		`stint_connections_cut_total{port="redis"} 4`,
		`stint_trace_spans_exported_total 3`,
		`stint_trace_spans_dropped_total{reason="queue"} 2`,
		`go_goroutines `,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("missing: %s", line)
		}
	}
}

// What has ended is told no more: an alert would take it for something that stands still.
func TestWhatHasEndedIsNotScraped(t *testing.T) {
	m := metrics.New()
	m.SinkFailing("mended", true)
	m.SinkFailing("mended", false)
	m.CanaryHeard(2, time.Unix(1_000_000, 0))
	m.CanaryLeft(2)
	for _, series := range []string{"stint_sink_failing", "stint_canary_timestamp_seconds"} {
		if text := scrape(t, m); strings.Contains(text, series) {
			t.Errorf("%s is still told", series)
		}
	}
}

// The table of doc.go and a scrape must name the same series.
func TestDocNamesEverySeries(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New()
	oneOfEach(m)
	documented := names(`(?m)^//\t(stint_\w+)`, string(doc))
	scraped := names(`(?m)^# TYPE (stint_\w+)`, scrape(t, m))
	if !slices.Equal(documented, scraped) {
		t.Errorf("documented %q\nscraped    %q", documented, scraped)
	}
}

func names(pattern, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}

func TestConcurrentFirstUseCountsAll(t *testing.T) {
	m := metrics.New()
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range 100 {
				call := event("allowed")
				m.Ended(&call)
			}
		})
	}
	callers.Wait()
	if line := `stint_decisions_total{outcome="allowed",policy="login"} 1600`; !strings.Contains(scrape(t, m), line) {
		t.Errorf("missing: %s", line)
	}
}

// Callers choose namespaces, so their number is bounded, and so are the series of all limits in them. None is lost.
func TestDenialsHaveBoundedNames(t *testing.T) {
	m := metrics.New()
	const each = 300
	for range 2 {
		for i := range each {
			m.Denied(fmt.Sprint("ns-", i), "p", "l")
			m.Denied("ns-0", fmt.Sprint("p-", i), "l")
			for j := range 20 {
				m.Denied(fmt.Sprint("ns-", i), "p", fmt.Sprint("l-", j))
			}
		}
	}
	series, sum := 0, 0.0
	for _, line := range strings.Split(scrape(t, m), "\n") {
		if strings.HasPrefix(line, "stint_denials_total{") {
			series++
			n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	if series > 2001 || series < 1000 || sum != 2*22*each {
		t.Errorf("%d series count %v denials, want at most 2001 and %d", series, sum, 2*22*each)
	}
	if text := scrape(t, m); strings.Count(text, `namespace="ns-0"`) == 0 ||
		strings.Contains(text, `namespace="ns-299"`) || !strings.Contains(text, `namespace="other"`) {
		t.Error("the namespaces that came first have no names, or those that came last have some")
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	m, call := metrics.New(), event("allowed")
	for name, call := range map[string]func(){
		"Ended":  func() { m.Ended(&call) },
		"Batch":  func() { m.Batch(2, 64, 1, 900) },
		"Commit": func() { m.Commit(2, 300*time.Microsecond) },
		"Append": func() { m.Append(300*time.Microsecond, 3) },
		"Epoch":  func() { m.Epoch(2, 77) },
		"Drop":   func() { m.Drop(2, "seq") },
		"Frozen": func() { m.Frozen(2) },
		"Full":   func() { m.Full(2) },
		"Denied": func() { m.Denied("default", "login", "minute") },
	} {
		if n := testing.AllocsPerRun(1000, call); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkEnded(b *testing.B) {
	m, call := metrics.New(), event("allowed")
	b.ReportAllocs()
	for b.Loop() {
		m.Ended(&call)
	}
}
