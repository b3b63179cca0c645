package policy

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Every field of a policies file appears in docs/policies.md: a field that is not documented is not used.
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
	if file, err = os.ReadFile("testdata/namespaces.yaml"); err != nil {
		t.Fatal(err)
	}
	var namespaces struct {
		Namespaces struct{ Shop yaml.Node }
	}
	if err := yaml.Unmarshal(file, &namespaces); err != nil {
		t.Fatal(err)
	}
	for field := range namesIn(&everything.Policies.Everything, &everything.Policies.Flooded,
		&namespaces.Namespaces.Shop) {
		if !regexp.MustCompile("`[^`]*\\b" + field + "\\b[^`]*`").Match(page) {
			t.Errorf("docs/policies.md does not name the field %s", field)
		}
	}
}

// The page's files can be applied, and it names every style of headers.
func TestTheFilesOfThePageAreRight(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	for _, file := range files {
		if !bytes.Contains(file[1], []byte("policies:")) {
			const policies = "policies: {login: {limits: [{name: a, quota: 1, lifetime: {}}]}, " +
				"api: {limits: [{name: a, quota: 1, lifetime: {}}]}}\n"
			file[1] = append([]byte(policies), file[1]...)
		}
		set, err := Parse("docs/policies.md", file[1])
		if err != nil {
			t.Error(err)
		} else if path, problem := set.Mistake(); problem != "" {
			t.Error(path, problem)
		}
	}
	if len(files) < 2 {
		t.Errorf("%d files", len(files))
	}
	for _, style := range headerStyles {
		if !bytes.Contains(page, []byte("| `"+style+"` |")) {
			t.Errorf("docs/policies.md does not name the style %s", style)
		}
	}
}

// namesIn returns the names of the fields in policies, except inside tiers, where the user chooses names.
func namesIn(nodes ...*yaml.Node) map[string]bool {
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
