package chart

import (
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deploy/kustomize/stint.yaml anew")

// base is the base for Kustomize: what the chart renders with the Secrets that its kustomization.yaml names.
const base = "../../deploy/kustomize/stint.yaml"

// ofHelm are lines that mean nothing without Helm, and those that name templates.
var ofHelm = regexp.MustCompile(
	`(?m)^ *(helm\.sh/chart|app\.kubernetes\.io/managed-by|app\.kubernetes\.io/version): .*\n`)

func TestTheBaseForKustomizeIsTheChart(t *testing.T) {
	texts, err := release{upgrade: true, values: map[string]any{
		"image":      map[string]any{"repository": "stint"},
		"tls":        map[string]any{"secret": "stint-tls"},
		"adminToken": map[string]any{"secret": "stint-admin"},
		"clusterKey": map[string]any{"secret": "stint-cluster-key"},
	}}.render()
	if err != nil {
		t.Fatal(err)
	}
	all := "# Written by `go test . -update` in tools/chart, from deploy/helm/stint: change that.\n"
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if text := strings.TrimSpace(ofHelm.ReplaceAllString(texts[file], "")); strings.HasSuffix(file, ".yaml") &&
			text != "" {
			all += "---\n" + text + "\n"
		}
	}
	if *update {
		if err := os.WriteFile(base, []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(base); err != nil || string(kept) != all {
		t.Errorf("%s is not what the chart renders (%v): go test . -update in tools/chart writes it", base, err)
	}
}
