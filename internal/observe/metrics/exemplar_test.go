package metrics_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/metrics"
)

// The requests of scrapers: Prometheus 2.42 and 3 in OpenMetrics, curl, and one that knows the text format alone.
const (
	acceptPrometheus2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
	acceptPrometheus3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
	acceptAnything    = "*/*"
	acceptText        = "text/plain;version=0.0.4"
)

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// A traced call leaves its trace in the bucket of its duration, for scrapers that ask for OpenMetrics. Others see
// nothing of it.
func TestExemplarsLeadToTraces(t *testing.T) {
	m := metrics.New()
	m.Ended(&decisions.Event{Method: "/stint.v1.LimitService/Check", Code: "ok", Took: 300 * time.Microsecond,
		TraceID: traceID})
	m.Ended(&decisions.Event{Method: "/stint.v1.LimitService/Check", Code: "ok", Took: 30 * time.Millisecond})
	m.Ended(&decisions.Event{System: "redis", Took: 300 * time.Microsecond, TraceID: traceID})
	m.Ended(&decisions.Event{System: "redis", Took: 30 * time.Millisecond})
	for _, accept := range []string{acceptPrometheus2, acceptPrometheus3} {
		text, kind := scrapeAs(t, m, accept)
		if !strings.HasPrefix(kind, "application/openmetrics-text") {
			t.Fatalf("%s is answered in %s", accept, kind)
		}
		var found []string
		families := map[string]bool{}
		for line := range strings.Lines(text) {
			if family, is := strings.CutPrefix(line, "# TYPE "); is {
				name, _, _ := strings.Cut(family, " ")
				if families[name] { // OpenMetrics leaves "_total" out of names
					t.Errorf("%s is there twice", name)
				}
				families[name] = true
			}
			if sample, exemplar, has := strings.Cut(strings.TrimSpace(line), " # "); has {
				found = append(found, sample+" "+exemplar[:strings.LastIndexByte(exemplar, ' ')]) // without the time
			}
		}
		want := []string{
			`stint_redis_round_duration_seconds_bucket{le="0.0004"} 1 {trace_id="` + traceID + `"} 0.0003`,
			`stint_request_duration_seconds_bucket{code="ok",procedure="/stint.v1.LimitService/Check",` +
				`le="0.0004"} 1 {trace_id="` + traceID + `"} 0.0003`,
		}
		if !slices.Equal(found, want) {
			t.Errorf("exemplars %q\nwant      %q", found, want)
		}
	}
	for _, accept := range []string{"", acceptAnything, acceptText, "text/plain"} {
		text, kind := scrapeAs(t, m, accept)
		if !strings.HasPrefix(kind, "text/plain; version=0.0.4") || strings.Contains(text, traceID) ||
			strings.Contains(text, "# EOF") {
			t.Errorf("%q is answered in %s, and with exemplars: %v", accept, kind, strings.Contains(text, traceID))
		}
	}
}

// sampleOf takes a line of a scrape apart: what comes after the value is an exemplar.
var sampleOf = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([^}]*)\})? (\S+)`)

// samples are the series of a scrape, with their values. Bounds of buckets are numbers: OpenMetrics writes 4 as 4.0.
func samples(t *testing.T, text string) (all map[string]string) {
	t.Helper()
	all = make(map[string]string)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		part := sampleOf.FindStringSubmatch(line)
		if part == nil {
			t.Fatalf("no sample: %q", line)
		}
		labels := regexp.MustCompile(`le="([^"]*)"`).ReplaceAllStringFunc(part[2], func(le string) string {
			bound, err := strconv.ParseFloat(le[4:len(le)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint("le=", bound)
		})
		all[part[1]+"{"+labels+"}"] = part[3]
	}
	return all
}

// Rules and dashboards find the same series whichever format a scraper asks for: the names of counters, with their
// _total, too, and nothing beside them. Bounds of buckets that they name are written alike in both.
func TestBothFormatsHaveTheSameSeries(t *testing.T) {
	m := metrics.New()
	oneOfEach(m)
	classic, _ := scrapeAs(t, m, acceptText)
	open, _ := scrapeAs(t, m, acceptPrometheus2)
	ours := func(all map[string]string) map[string]string {
		for series := range all {
			if !strings.HasPrefix(series, "stint_") {
				delete(all, series)
			}
		}
		return all
	}
	in, out := ours(samples(t, classic)), ours(samples(t, open))
	for series := range in {
		if _, both := out[series]; !both {
			t.Errorf("OpenMetrics lacks %s", series)
		}
	}
	for series := range out {
		if _, both := in[series]; !both {
			t.Errorf("only OpenMetrics has %s", series)
		}
	}
	if len(in) < 100 {
		t.Errorf("there are %d series", len(in))
	}
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range append(dashboardQueries(t), query{"the rules", string(rules)}) {
		for _, le := range regexp.MustCompile(`\ble="[^"]*"`).FindAllString(q.text, -1) {
			if !strings.Contains(classic, le) || !strings.Contains(open, le) {
				t.Errorf("%s asks for %s, which is not a bucket in both formats", q.where, le)
			}
		}
	}
}

// Debian's promtool reads both formats.
func TestPromtoolReadsBothFormats(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	m := metrics.New()
	oneOfEach(m)
	m.Ended(&decisions.Event{Method: "/stint.v1.LimitService/Check", Code: "ok", Took: 300 * time.Microsecond,
		TraceID: traceID})
	classic, _ := scrapeAs(t, m, acceptText)
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(classic)
	if out, err := check.CombinedOutput(); strings.Contains(string(out), "error while linting") ||
		err != nil && check.ProcessState.ExitCode() != lintedOnly {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	open, _ := scrapeAs(t, m, acceptPrometheus2)
	dir := t.TempDir()
	file := filepath.Join(dir, "scrape")
	at := strconv.FormatInt(time.Now().Unix(), 10)
	// promtool imports samples of a time
	timed := regexp.MustCompile(`(?m)^([^#\n][^\n#]*?)( # .*)?$`).ReplaceAllString(open, "$1 "+at+"$2")
	if err := os.WriteFile(file, []byte(timed), 0o600); err != nil {
		t.Fatal(err)
	}
	blocks := filepath.Join(dir, "blocks")
	promtool(t, "tsdb", "create-blocks-from", "openmetrics", file, blocks)
	if err := os.MkdirAll(filepath.Join(blocks, "wal"), 0o700); err != nil { // dump wants one
		t.Fatal(err)
	}
	dump, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "dump", blocks).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{`__name__="stint_decisions_total"`,
		`__name__="stint_request_duration_seconds_bucket"`, `__name__="stint_ready"`} {
		if !strings.Contains(string(dump), series) {
			t.Errorf("promtool has imported no series with %s", series)
		}
	}
}

// lintedOnly is the status of promtool check metrics when it has read everything, and likes some names less.
const lintedOnly = 3
