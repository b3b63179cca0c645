package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProxyConfigurationsOfThePages holds that the configurations in the manual are those of the examples: `make
// proxies` runs the former, and the tests of this package read the manifests.
func TestProxyConfigurationsOfThePages(t *testing.T) {
	for page, patterns := range map[string][]string{
		"../docs/proxies.md": {"nginx/*.conf", "nginx/policies.yaml", "caddy/Caddyfile", "haproxy/haproxy.cfg",
			"haproxy/*.lua", "traefik/dynamic.yaml"},
		"../docs/ext-authz.md": {"ext-authz/policies.yaml", "ext-authz/envoy.yaml", "ext-authz/envoy-gateway.yaml",
			"ext-authz/istio.yaml", "ext-authz/kgateway.yaml", "ext-authz/contour.yaml", "ext-authz/apisix.yaml"},
	} {
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
		for _, pattern := range patterns {
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
}
