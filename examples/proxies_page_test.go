package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProxyConfigurationsOfThePage holds that the configurations in the manual are those of the examples, which `make
// proxies` runs.
func TestProxyConfigurationsOfThePage(t *testing.T) {
	const page = "../docs/proxies.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for i, block := range strings.Split(string(text), "\n```") {
		if i%2 == 0 {
			continue // between two blocks
		}
		_, code, _ := strings.Cut(block, "\n")
		shown[code+"\n"] = true
	}
	for _, pattern := range []string{"nginx/*.conf", "nginx/policies.yaml", "caddy/Caddyfile", "haproxy/haproxy.cfg", "haproxy/*.lua", "traefik/dynamic.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v %v", pattern, files, err)
		}
		file, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if !shown[string(file)] {
			t.Errorf("%s does not show %s as it is", page, files[0])
		}
	}
}
