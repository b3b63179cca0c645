package policy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/policy"
)

// resolvedSchema returns what stint policies schema prints, ready to validate.
func resolvedSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal(policy.JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("a schema of %q", schema.Schema)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// asJSON returns a YAML document as an editor sees it.
func asJSON(t *testing.T, text []byte) any {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return nil // an editor says so by itself
	}
	return jsonOf(t, document.Content[0])
}

func jsonOf(t *testing.T, n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		fields := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			fields[n.Content[i].Value] = jsonOf(t, n.Content[i+1])
		}
		return fields
	case yaml.SequenceNode:
		items := []any{}
		for _, item := range n.Content {
			items = append(items, jsonOf(t, item))
		}
		return items
	case yaml.AliasNode:
		return jsonOf(t, n.Alias)
	}
	var value any
	if strings.Contains(n.Value, "_") && n.ShortTag() == "!!int" {
		return n.Value // YAML 1.2, which editors read, has no "_" in numbers
	}
	if err := n.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// policiesFiles returns the texts of all files and blocks of the repository that Parse accepts, by their places.
func policiesFiles(t *testing.T) map[string][]byte {
	t.Helper()
	texts := map[string][]byte{}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, root := range []string{".", "../docs", "../examples", "../deploy", "../README.md"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			switch filepath.Ext(path) {
			case ".yaml":
				texts[path] = text
			case ".md":
				for i, block := range blocks.FindAllSubmatch(text, -1) {
					texts[path+string(rune('a'+i))] = block[1]
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for place, text := range texts {
		if _, err := policy.Parse(place, text); err != nil {
			delete(texts, place)
		}
	}
	return texts
}

// An editor does not underline what the server takes.
func TestSchemaTakesEveryFile(t *testing.T) {
	schema, files := resolvedSchema(t), policiesFiles(t)
	for place, text := range files {
		if err := schema.Validate(asJSON(t, text)); err != nil {
			t.Errorf("%s: %v", place, err)
		}
	}
	gates := []byte(gatePolicies + everyGateField)
	if err := schema.Validate(asJSON(t, gates)); err != nil {
		t.Error(err)
	}
	if len(files) < 25 {
		t.Errorf("only %d files", len(files))
	}
}

// What may be absent may also be empty, and numbers and durations have some forms that few people write.
func TestSchemaTakesRareForms(t *testing.T) {
	const gate = "policies: {p: {limits: [{name: a, quota: 1, lifetime: {}}]}}\n" +
		"gates: {g: {no_match: allow, %s, routes: [{match: {%s}, entries: [{policy: p, key: k}]}]}}"
	schema := resolvedSchema(t)
	for _, text := range []string{
		fmt.Sprintf(gate, `namespace: ""`, ""), fmt.Sprintf(gate, `request_id: ""`, ""),
		fmt.Sprintf(gate, "fail: open", `host: "", method: ""`), fmt.Sprintf(gate, "fail: open", `path: "", prefix: /`),
		`policies: {p: {parent: "", default_tier: "", reason: "", ` +
			`limits: [{name: a, unit: "", reason: "", quota: 1, lifetime: {}}]}}`,
		"policies: {p: {limits: [{name: a, quota: 1__000_, lifetime: {}}]}}",
		"policies: {p: {limits: [{name: a, quota: 1, sliding_log: {period: +5s}}]}}",
		"policies: {p: {limits: [{name: a, quota: 1, sliding_log: {period: 1d+2h}}]}}",
	} {
		if _, err := policy.Parse("f.yaml", []byte(text)); err != nil {
			t.Errorf("Parse refuses %s: %v", text, err)
		} else if err := schema.Validate(asJSON(t, []byte(text))); err != nil {
			t.Errorf("the schema refuses %s: %v", text, err)
		}
	}
}

// An editor underlines fields that are wrong by themselves. Only Parse checks fields against each other.
func TestSchemaRefusesBadFiles(t *testing.T) {
	besideOthers := []string{"deny_cache", "parents", "headers", "duplicates", "alias_bomb",
		"syntax", "tabs", "tabs_at_the_end_of_an_indentation", "two_documents", "not_utf8", "empty"}
	schema := resolvedSchema(t)
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if !slices.Contains(besideOthers, name) && schema.Validate(asJSON(t, text)) == nil {
			t.Errorf("%s is refused by Parse alone", name)
		}
	}
	for _, wrong := range []string{
		"policies: {p: {limits: []}}", "policies: {p: {limits: [{name: a, quota: 1}]}}", "polices: {}",
		"policies: {p: {limits: [{name: a, quota: 1, lifetime: {}, sliding_log: {period: 1m}}]}}",
		"policies: {p: {limits: [{name: a, lifetime: {}}]}}", "policies: {p: {}}",
		"policies: {P: {limits: [{name: a, quota: 1, lifetime: {}}]}}",
		"policies: {p: {on_expire: refund, limits: [{name: a, quota: 1, lifetime: {}}]}}",
		"policies: {p: {limits: [{name: a, quota: 1, sliding_log: {period: 1y}}]}}",
		"policies: {p: {limits: [{name: a, quota: 1, lifetime: {}}], meter: {name: m, calendar: {unit: day}, " +
			"retain: 37}}}",
	} {
		if schema.Validate(asJSON(t, []byte(wrong))) == nil {
			t.Errorf("the schema takes %s", wrong)
		}
	}
}

// Every field has a sentence for editors.
func TestSchemaDescribesEveryField(t *testing.T) {
	if bytes.Contains(policy.JSONSchema(), []byte(`"description": ""`)) {
		t.Error("a field has no sentence")
	}
}
