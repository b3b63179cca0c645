package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/observe/metrics"
)

const (
	rulesFile     = "../../../deploy/prometheus-rules.yml"
	dashboardFile = "../../../deploy/grafana-dashboard.json"
	alarmsPage    = "../../../docs/observability.md"
)

// query is a PromQL expression, and where it is.
type query struct{ where, text string }

// dashboardQueries are the expressions of all panels.
func dashboardQueries(t *testing.T) (all []query) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, query{"the panel " + p.Title, target.Expr})
		}
	}
	if len(all) < 20 {
		t.Fatalf("the dashboard has %d queries", len(all))
	}
	return all
}

// Every series that the rules and the dashboard ask for is one that a node has, with the labels that it has.
func TestRulesAndDashboardAskForSeriesThatExist(t *testing.T) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New()
	oneOfEach(m)
	known := seriesOf(scrape(t, m))
	asked := append(dashboardQueries(t), query{"the rules",
		regexp.MustCompile(`(?m)^ *#.*|summary: ".*"|alert: .*`).ReplaceAllString(string(rules), "")})
	for _, q := range asked {
		for _, found := range regexp.MustCompile(`\b((?:stint|go|process)_\w+)(?:\{([^}]*)\})?`).
			FindAllStringSubmatch(q.text, -1) {
			labels, exists := known[found[1]]
			if !exists {
				t.Errorf("%s asks for %s, which is no series", q.where, found[1])
			}
			for _, label := range regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`).FindAllStringSubmatch(found[2], -1) {
				if label[1] != "job" && label[1] != "instance" && !slices.Contains(labels, label[1]) {
					t.Errorf("%s asks for %s by %s, and it has the labels %v", q.where, found[1], label[1], labels)
				}
			}
		}
	}
}

// seriesOf returns the labels of every series of a scrape.
func seriesOf(text string) map[string][]string {
	all := make(map[string][]string)
	for _, line := range strings.Split(text, "\n") {
		name, rest, _ := strings.Cut(line, "{")
		if name, _, _ = strings.Cut(name, " "); name == "" || name == "#" {
			continue
		}
		all[name] = nil
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			all[name] = append(all[name], label[1])
		}
	}
	return all
}

// Each alert is in the manual, and the manual has no other.
func TestEveryAlertIsInTheManual(t *testing.T) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(alarmsPage)
	if err != nil {
		t.Fatal(err)
	}
	alerts, documented := names(`(?m)alert: (\w+)`, string(rules)), names("(?m)^\\| `(Stint\\w+)`", string(page))
	if len(alerts) == 0 || !slices.Equal(alerts, documented) {
		t.Errorf("alerts     %q\ndocumented %q", alerts, documented)
	}
}

// promtool runs Debian's promtool (package prometheus). Without it the test is skipped; `make full` installs it.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Every alert is raised by the cluster that it is about, and by no sound one.
func TestAlertsAreRaised(t *testing.T) {
	promtool(t, "check", "rules", rulesFile)
	promtool(t, "test", "rules", "testdata/rules.yml")
	played, err := os.ReadFile("testdata/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range names(`(?m)alert: (\w+)`, string(rules)) {
		if !strings.Contains(string(played), `alertname="`+alert+`"`) {
			t.Errorf("nothing raises %s: add a cluster that does to testdata/rules.yml", alert)
		}
	}
}

// The page's configuration is one that Prometheus reads, and asks nodes with certificates.
func TestPrometheusReadsTheConfigurationOfThePage(t *testing.T) {
	page, err := os.ReadFile(alarmsPage)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(rule_files:.*?)```").FindSubmatch(page)
	if found == nil || !strings.Contains(string(found[1]), "scheme: https") ||
		!strings.Contains(string(found[1]), "tls_config:") {
		t.Fatalf("the page's configuration:\n%s", found)
	}
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"prometheus.yml": found[1], "prometheus-rules.yml": rules,
		"observe.token": nil, "ca.crt": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))
}

// The queries of the dashboard are PromQL. promtool reads them as rules.
func TestDashboardQueriesAreRead(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, q := range dashboardQueries(t) {
		text := strings.NewReplacer("$job", "stint", "$__rate_interval", "1m").Replace(q.text)
		fmt.Fprintf(&rules, "  - {record: 'dashboard:%d', expr: %q}\n", i, text)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}
