package api

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// servedDocument reads the document as a client of the API does.
func servedDocument(t *testing.T, w *world) (document map[string]any) {
	t.Helper()
	code, header, body := w.do("GET", "/openapi.yaml", "", "")
	if code != 200 || header.Get("Content-Type") != "application/yaml" {
		t.Fatal(code, header)
	}
	if err := yaml.Unmarshal([]byte(body), &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// Every procedure of the contract is in the served document, and nothing else but the paths that are no procedures.
func TestOpenAPIHasEveryProcedure(t *testing.T) {
	document := servedDocument(t, newWorld(t))
	if document["openapi"] != "3.1.0" {
		t.Error(document["openapi"])
	}
	var want, got []string
	for _, procedure := range procedures(t) {
		// Envoy asks by gRPC, from its own files
		if procedure != EnvoyProcedure && procedure != ExtAuthzProcedure &&
			!strings.HasPrefix(procedure, "/stint.test.") {
			want = append(want, procedure)
		}
	}
	want = append(want, "/healthz", "/readyz", "/metrics", "/openapi.yaml")
	for path := range document["paths"].(map[string]any) {
		got = append(got, path)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// The document's description of answers fits the API's answers: names, kinds, words, numbers as strings.
func TestAnswersAreWhatOpenAPISays(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = func(shard.Request) shard.Result {
		denies := limitStatus("api", "burst", 5, verdictOf(false, 5, 0, 5*second/2, second/2))
		daily := limitStatus("api", "daily", 200, verdictOf(true, 10, 190, 86400*second, 0))
		return shard.Result{Decision: shard.Decision{DecidedAt: noon, RetryAfter: limit.Span(1),
			Limits: []shard.LimitStatus{denies, daily}}}
	}
	document := servedDocument(t, w)
	const entries = `{"entries":[{"policy":"api","key":"user:42"}]`
	for procedure, body := range map[string]string{
		"LimitService/Check":      entries + `,"explain":true}`,
		"LimitService/CheckBatch": `{"checks":[` + entries + `},{"entries":[]}]}`,
		"LimitService/Get":        entries + `}`,
		"PolicyService/List":      `{}`,
		"ClusterService/Status":   `{}`,
	} {
		code, _, answer := w.post(procedure, body)
		if code != 200 {
			t.Errorf("%s: %d %s", procedure, code, answer)
			continue
		}
		if err := conforms(document, "200", "/stint.v1."+procedure, answer); err != nil {
			t.Errorf("%s: %v\nin %s", procedure, err, answer)
		}
	}
	code, _, answer := w.post("LimitService/Check", `{"entries":[]}`)
	if err := conforms(document, "default", "/stint.v1.LimitService/Check", answer); code != 400 || err != nil {
		t.Errorf("an error: %d %v\nin %s", code, err, answer)
	}
	if conforms(document, "200", "/stint.v1.LimitService/Check", `{"decision":{"limits":[{"quota":5}]}}`) == nil ||
		conforms(document, "200", "/stint.v1.LimitService/Check", `{"decision":{"retry_after":"1s"}}`) == nil {
		t.Error("a number in place of a string, and an unknown name, are taken for right")
	}
}

// conforms checks an answer against the document.
func conforms(document map[string]any, status, path, answer string) error {
	var value any
	if err := json.Unmarshal([]byte(answer), &value); err != nil {
		return err
	}
	at := func(v any, names ...string) any {
		for _, name := range names {
			v = v.(map[string]any)[name]
		}
		return v
	}
	schema := at(document, "paths", path, "post", "responses", status, "content", "application/json", "schema")
	schemas := at(document, "components", "schemas").(map[string]any)
	return matches(schemas, schema.(map[string]any), value, "answer")
}

// matches checks a value against a schema, as far as the document's generator uses the language of schemas.
func matches(schemas, schema map[string]any, value any, where string) error {
	if to, isRef := schema["$ref"].(string); isRef {
		schema = schemas[strings.TrimPrefix(to, "#/components/schemas/")].(map[string]any)
	}
	wrong := func() error { return fmt.Errorf("%s is %v, and no %v", where, value, schema["type"]) }
	switch schema["type"] {
	case nil:
	case "object":
		fields, is := value.(map[string]any)
		if !is {
			return wrong()
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, field := range fields {
			inner, found := properties[name].(map[string]any)
			if !found {
				if inner, found = schema["additionalProperties"].(map[string]any); !found {
					return fmt.Errorf("%s has %s, which the document does not know", where, name)
				}
			}
			if err := matches(schemas, inner, field, where+"."+name); err != nil {
				return err
			}
		}
	case "array":
		items, is := value.([]any)
		if !is {
			return wrong()
		}
		for i, item := range items {
			if err := matches(schemas, schema["items"].(map[string]any), item,
				fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	case "string":
		text, is := value.(string)
		if pattern, has := schema["pattern"].(string); !is || has && !regexp.MustCompile(pattern).MatchString(text) {
			return wrong()
		}
		if words, has := schema["enum"].([]any); has && !slices.Contains(words, any(text)) {
			return fmt.Errorf("%s is %q, which the document does not know", where, text)
		}
	case "boolean":
		if _, is := value.(bool); !is {
			return wrong()
		}
	case "integer", "number":
		if _, is := value.(float64); !is {
			return wrong()
		}
	default:
		return fmt.Errorf("%s: the document has the type %v", where, schema["type"])
	}
	return nil
}
