//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestAlertsFireInARealPrometheus scrapes three nodes under load by the rules that are shipped, in which a minute is
// made a second. A key goes wild, a disk becomes slow and a node is killed: the alert that docs/observability.md
// promises fires for each, and not before. Every query of the dashboard is asked of the same cluster, and the buckets
// of its latencies lead to traces.
func TestAlertsFireInARealPrometheus(t *testing.T) {
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Fatal("a real Prometheus is needed: apt-get install prometheus")
	}
	c := newClusterWith(t, testcluster.Options{Policies: "policies:\n" +
		"  calm: {limits: [{name: all, quota: 1000000000, lifetime: {}}]}\n" +
		"  wild: {limits: [{name: few, quota: 10, lifetime: {}}]}\n",
		// without a collector: the traces are looked for as exemplars
		Args: []string{"--trace-otlp", "http://127.0.0.1:1", "--trace-ratio", "1"}})
	p := startPrometheus(t, c)
	loaded := load(t, c.Addr(0), "calm", 1)
	defer loaded()

	await.Until(t, "all nodes are scraped, and have been for half an hour of its time", func() bool {
		return p.value(`count(up{job="stint"} offset 30s == 1)`) == "3"
	})
	for _, fault := range []string{"StintDenialsRise", "StintNodeDown", "StintQuorumAtRisk", "StintShardStopped",
		"StintFingerprintMismatch"} {
		if labels := p.firing(fault); labels != nil {
			t.Errorf("%s fires before there is a fault: %v", fault, labels)
		}
	}
	wild := load(t, c.Addr(1), "wild", 4)
	p.awaitAlert("StintDenialsRise", map[string]string{"namespace": "default", "policy": "wild", "limit": "few"})
	wild()
	p.askDashboard()
	await.Until(t, "the latency of checks leads to traces", func() bool {
		return p.leadsToTraces("stint_request_duration_seconds_bucket")
	})

	if err := c.Kill(2); err != nil {
		t.Fatal(err)
	}
	if err := c.RestartFailing(2, "delay_enter=200000:when=1+"); err != nil {
		t.Fatal(err)
	}
	p.awaitAlert("StintDiskSlow", map[string]string{"instance": c.Addr(2)})

	if err := c.Kill(2); err != nil {
		t.Fatal(err)
	}
	p.awaitAlert("StintNodeDown", map[string]string{"instance": c.Addr(2), "severity": "page"})
	p.awaitAlert("StintQuorumAtRisk", map[string]string{"severity": "page"})
	if labels := p.firing("StintNodeDown"); len(labels) != 1 {
		t.Errorf("StintNodeDown fires for %v, and one node is down", labels)
	}
}

// load checks one key of a policy from some callers, until the returned function is called.
func load(t *testing.T, address, policy string, callers int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	c := newClient(address)
	for range callers {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.check(policy, "key", "") // faults are wanted here, and alerts are what is looked at
				pause(ctx, 5*time.Millisecond)
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

// prometheus is a real one that scrapes a cluster.
type prometheus struct {
	t       *testing.T
	address string
}

// startPrometheus starts one; it ends with the test.
func startPrometheus(t *testing.T, c *testcluster.Cluster) *prometheus {
	t.Helper()
	rules, err := os.ReadFile("../../../deploy/prometheus-rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir, p := t.TempDir(), &prometheus{t: t, address: c.Beside(9090)}
	config := fmt.Sprintf("global: {scrape_interval: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yml]\n"+
		"scrape_configs:\n  - {job_name: stint, static_configs: [{targets: [%s]}]}\n", strings.Join(c.Addrs(), ", "))
	for name, text := range map[string]string{"rules.yml": hurried(string(rules)), "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	process := exec.Command("prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path",
		filepath.Join(dir, "data"), "--web.listen-address", p.address, "--enable-feature", "exemplar-storage")
	var log strings.Builder
	process.Stdout, process.Stderr = &log, &log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait() // it was killed
		if t.Failed() {
			t.Logf("Prometheus:\n%s", log.String())
		}
	})
	return p
}

// durations are those of the rules: ranges, offsets and how long a condition must hold.
var durations = regexp.MustCompile(`(\[|offset |for: )(\d+)([mhd])\b`)

// hurried are rules in which a minute is a second.
func hurried(rules string) string {
	return durations.ReplaceAllStringFunc(rules, func(found string) string {
		part := durations.FindStringSubmatch(found)
		length, err := time.ParseDuration(map[string]string{"m": "1s", "h": "60s", "d": "1440s"}[part[3]])
		if err != nil {
			panic(err)
		}
		var many int64
		if _, err := fmt.Sscan(part[2], &many); err != nil {
			panic(err)
		}
		return part[1] + fmt.Sprintf("%ds", many*int64(length/time.Second))
	})
}

// get asks the API of Prometheus. It reports false while there is no answer.
func (p *prometheus) get(path string, data any) bool {
	response, err := http.Get("http://" + p.address + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	reply := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&reply); err != nil {
		return false
	}
	if reply.Error != "" {
		p.t.Errorf("%s: %s", path, reply.Error)
	}
	return reply.Status == "success"
}

type series struct {
	Metric map[string]string
	Value  [2]any
}

// query evaluates an expression now.
func (p *prometheus) query(expression string) (result []series) {
	var data struct{ Result []series }
	p.get("/api/v1/query?query="+url.QueryEscape(expression), &data)
	return data.Result
}

// value is that of the only series, or "".
func (p *prometheus) value(expression string) string {
	result := p.query(expression)
	if len(result) != 1 {
		return ""
	}
	return fmt.Sprint(result[0].Value[1])
}

// leadsToTraces reports whether buckets of a histogram have ids of traces. A scrape has them in OpenMetrics only.
func (p *prometheus) leadsToTraces(buckets string) bool {
	var found []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	now := time.Now().Unix()
	p.get(fmt.Sprintf("/api/v1/query_exemplars?query=%s&start=%d&end=%d", url.QueryEscape(buckets), now-600, now+1),
		&found)
	for _, series := range found {
		for _, exemplar := range series.Exemplars {
			if len(exemplar.Labels["trace_id"]) == 32 {
				return true
			}
		}
	}
	return false
}

// firing are the labels of the alerts of a name that fire.
func (p *prometheus) firing(name string) (labels []map[string]string) {
	for _, s := range p.query(fmt.Sprintf("ALERTS{alertname=%q, alertstate=\"firing\"}", name)) {
		labels = append(labels, s.Metric)
	}
	return labels
}

// awaitAlert waits until an alert fires that has these labels, among others.
func (p *prometheus) awaitAlert(name string, wanted map[string]string) {
	p.t.Helper()
	began := time.Now()
	await.Until(p.t, fmt.Sprintf("%s fires for %v", name, wanted), func() bool {
		return slices.ContainsFunc(p.firing(name), func(labels map[string]string) bool {
			for label, value := range wanted {
				if labels[label] != value {
					return false
				}
			}
			return true
		})
	})
	p.t.Logf("%s fires for %v after %v", name, wanted, time.Since(began).Round(time.Second))
}

// whenRare are the panels that show nothing while nothing of the kind has happened.
var whenRare = []string{"backup", "redis", "refused"}

// askDashboard evaluates every query of the dashboard: each must be one that Prometheus takes, and show something.
func (p *prometheus) askDashboard() {
	p.t.Helper()
	text, err := os.ReadFile("../../../deploy/grafana-dashboard.json")
	if err != nil {
		p.t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		p.t.Fatal(err)
	}
	asked := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asked++
			expression := strings.NewReplacer("$job", "stint", "$__rate_interval", "10s").Replace(target.Expr)
			rare := slices.ContainsFunc(whenRare, func(part string) bool { return strings.Contains(target.Expr, part) })
			if len(p.query(expression)) == 0 && !rare {
				p.t.Errorf("the panel %q shows nothing of a loaded cluster: %s", panel.Title, expression)
			}
		}
	}
	p.t.Logf("%d queries of the dashboard", asked)
}
