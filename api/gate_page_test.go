package api

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-io/stint/policy"
)

// The example of docs/gates.md does what the page says, and the page names every field that it uses.
func TestTheGateOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, rest, _ := strings.Cut(text, "```\n")
	_, gate, _ := strings.Cut(text, "gates:\n")
	for _, field := range regexp.MustCompile(`([a-z_]+): `).FindAllStringSubmatch(gate, -1) {
		if !strings.Contains(rest, "`"+field[1]+"`") && !strings.Contains(rest, field[1]+": ") {
			t.Errorf("the page does not explain %s", field[1])
		}
	}
	here := regexp.MustCompile(`trusted_proxies: \[.*?\]`).ReplaceAllLiteralString(text,
		"trusted_proxies: [127.0.0.0/8]")
	set, err := policy.Parse("docs/gates.md", []byte(here))
	if err != nil {
		t.Fatal(err)
	}
	w := newGuardedWorld(t, nil)
	w.revision = &policy.Revision{Version: 8, Set: set.At(8)}
	// sha256sum of "secret"
	const known = "key:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
	for name, c := range map[string]struct {
		headers []string
		want    string // policy and key of each entry
	}{
		"a login":            {by("POST", "/login"), "login ip:203.0.113.7, per-ip ip:203.0.113.7"},
		"an API key":         {by("GET", "/api/probes", "X-Api-Key: secret"), "plan " + known},
		"a search":           {by("GET", "/search?q=x"), "per-ip ip:203.0.113.7"},
		"a file, and a cost": {by("GET", "/files/7/raw", "X-Cost: 12"), "per-ip ip:203.0.113.7"},
		"anything else":      {by("GET", "/"), ""},
	} {
		before := len(w.decider.requests())
		status, _, body := w.ask("/gate/web?deny=403", c.headers...)
		var counted []string
		for _, r := range w.decider.requests()[before:] {
			for _, e := range r.Entries {
				counted = append(counted, e.Policy+" "+e.Key)
			}
			if r.Namespace != "shop" {
				t.Errorf("%s: counted in %s", name, r.Namespace)
			}
		}
		if got := strings.Join(counted, ", "); status != 200 || got != c.want {
			t.Errorf("%s: %d %q, counted %q, want %q", name, status, body, got, c.want)
		}
	}
	w.api.Wait()
}
