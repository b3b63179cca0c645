package policy

import (
	"os"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Every field of a policies file appears in docs/policies.md: nobody uses a field that is not documented.
func TestEveryFieldIsInPolicies(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("testdata/every_field.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var everything struct {
		Policies struct{ Everything, Flooded yaml.Node }
	}
	if err := yaml.Unmarshal(file, &everything); err != nil {
		t.Fatal(err)
	}
	for field := range fieldsOf(&everything.Policies.Everything, &everything.Policies.Flooded) {
		if !regexp.MustCompile("`[^`]*\\b" + field + "\\b[^`]*`").Match(page) {
			t.Errorf("docs/policies.md does not name the field %s", field)
		}
	}
}

// fieldsOf returns the names of the fields in policies, except inside tiers, whose names are chosen by the user.
func fieldsOf(nodes ...*yaml.Node) map[string]bool {
	fields := map[string]bool{}
	for len(nodes) > 0 {
		n := nodes[0]
		nodes = nodes[1:]
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				fields[child.Value] = true
				continue
			}
			if n.Kind == yaml.MappingNode && n.Content[i-1].Value == "tiers" {
				continue
			}
			nodes = append(nodes, child)
		}
	}
	return fields
}
