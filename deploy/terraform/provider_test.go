package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/stinttest"
)

// terraform asks the provider's server what Terraform asks it, in the same order.
type terraform struct {
	t       *testing.T
	server  tfprotov6.ProviderServer
	schemas map[string]*tfprotov6.Schema
}

// values are attributes by name, as encoding/json has them; absent ones are null.
type values map[string]any

// start starts a provider for a cluster.
func start(t *testing.T, address, token string) *terraform {
	t.Helper()
	server, err := providerserver.NewProtocol6WithError(newProvider())()
	if err != nil {
		t.Fatal(err)
	}
	all, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil || problems(all.Diagnostics) != nil {
		t.Fatal(err, problems(all.Diagnostics))
	}
	tf := &terraform{t, server, all.ResourceSchemas}
	config := values{"address": address, "token": nil}
	if token != "" {
		config["token"] = token
	}
	answer, err := server.ConfigureProvider(t.Context(),
		&tfprotov6.ConfigureProviderRequest{Config: tf.dynamic(tf.value(all.Provider, config))})
	if err != nil || problems(answer.Diagnostics) != nil {
		t.Fatal(err, problems(answer.Diagnostics))
	}
	return tf
}

// problems returns the errors of diagnostics.
func problems(diagnostics []*tfprotov6.Diagnostic) error {
	var all []error
	for _, d := range diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			all = append(all, errors.New(d.Summary+": "+d.Detail))
		}
	}
	return errors.Join(all...)
}

func (tf *terraform) value(schema *tfprotov6.Schema, v values) tftypes.Value {
	tf.t.Helper()
	text, err := json.Marshal(filled(schema.ValueType(), map[string]any(v)))
	if err != nil {
		tf.t.Fatal(err)
	}
	value, err := tftypes.ValueFromJSON(text, schema.ValueType())
	if err != nil {
		tf.t.Fatal(err)
	}
	return value
}

// filled adds the nulls of absent attributes.
func filled(kind tftypes.Type, v any) any {
	switch kind := kind.(type) {
	case tftypes.Object:
		from, _ := v.(map[string]any)
		to := make(map[string]any)
		for name, attribute := range kind.AttributeTypes {
			to[name] = nil
			if from[name] != nil {
				to[name] = filled(attribute, from[name])
			}
		}
		return to
	case tftypes.Map:
		to := make(map[string]any)
		for name, value := range v.(map[string]any) {
			to[name] = filled(kind.ElementType, value)
		}
		return to
	case tftypes.List:
		var to []any
		for _, value := range v.([]any) {
			to = append(to, filled(kind.ElementType, value))
		}
		return to
	}
	return v
}

func (tf *terraform) dynamic(v tftypes.Value) *tfprotov6.DynamicValue {
	tf.t.Helper()
	d, err := tfprotov6.NewDynamicValue(v.Type(), v)
	if err != nil {
		tf.t.Fatal(err)
	}
	return &d
}

func (tf *terraform) static(resource string, d *tfprotov6.DynamicValue) tftypes.Value {
	tf.t.Helper()
	v, err := d.Unmarshal(tf.schemas[resource].ValueType())
	if err != nil {
		tf.t.Fatal(err)
	}
	return v
}

// none is the state of a resource that does not exist.
func (tf *terraform) none(resource string) tftypes.Value {
	return tftypes.NewValue(tf.schemas[resource].ValueType(), nil)
}

// plan validates and plans a configuration.
func (tf *terraform) plan(
	resource string, prior tftypes.Value, v values,
) (*tfprotov6.PlanResourceChangeResponse, tftypes.Value, error) {
	tf.t.Helper()
	schema := tf.schemas[resource]
	config := tf.value(schema, v)
	valid, err := tf.server.ValidateResourceConfig(tf.t.Context(),
		&tfprotov6.ValidateResourceConfigRequest{TypeName: resource, Config: tf.dynamic(config)})
	if err != nil || problems(valid.Diagnostics) != nil {
		return nil, config, errors.Join(err, problems(valid.Diagnostics))
	}
	answer, err := tf.server.PlanResourceChange(tf.t.Context(),
		&tfprotov6.PlanResourceChangeRequest{TypeName: resource, PriorState: tf.dynamic(prior),
			ProposedNewState: tf.dynamic(proposed(tf.t, schema, prior, config)), Config: tf.dynamic(config)})
	if err != nil {
		return nil, config, err
	}
	return answer, config, problems(answer.Diagnostics)
}

// proposed is a configuration with the computed attributes of the state, as Terraform proposes it.
func proposed(t *testing.T, schema *tfprotov6.Schema, prior, config tftypes.Value) tftypes.Value {
	if prior.IsNull() {
		return config
	}
	attributes, old := attributesOf(t, config), attributesOf(t, prior)
	for _, a := range schema.Block.Attributes {
		if a.Computed && attributes[a.Name].IsNull() {
			attributes[a.Name] = old[a.Name]
		}
	}
	return tftypes.NewValue(config.Type(), attributes)
}

func attributesOf(t *testing.T, v tftypes.Value) map[string]tftypes.Value {
	t.Helper()
	all := make(map[string]tftypes.Value)
	if err := v.As(&all); err != nil {
		t.Fatal(err)
	}
	return maps.Clone(all)
}

// text returns an attribute that is a text.
func text(t *testing.T, state tftypes.Value, name string) string {
	t.Helper()
	var s string
	if err := attributesOf(t, state)[name].As(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// apply makes a resource what a configuration says, and checks that another plan changes nothing then.
func (tf *terraform) apply(resource string, prior tftypes.Value, v values) (tftypes.Value, error) {
	tf.t.Helper()
	plan, config, err := tf.plan(resource, prior, v)
	if err != nil {
		return prior, err
	}
	if len(plan.RequiresReplace) > 0 {
		if err := tf.destroy(resource, prior); err != nil {
			return prior, err
		}
		return tf.apply(resource, tf.none(resource), v)
	}
	answer, err := tf.server.ApplyResourceChange(tf.t.Context(),
		&tfprotov6.ApplyResourceChangeRequest{TypeName: resource, PriorState: tf.dynamic(prior),
			PlannedState: plan.PlannedState, Config: tf.dynamic(config), PlannedPrivate: plan.PlannedPrivate})
	if err == nil {
		err = problems(answer.Diagnostics)
	}
	if err != nil {
		return prior, err
	}
	state := tf.static(resource, answer.NewState)
	read := tf.read(resource, state)
	if !read.Equal(state) {
		tf.t.Errorf("%s: a read gives %v, the apply gave %v", resource, read, state)
	}
	if tf.changes(resource, read, v) {
		tf.t.Errorf("%s: a plan after the apply changes something", resource)
	}
	return read, nil
}

// applied is apply, where it must succeed.
func (tf *terraform) applied(resource string, prior tftypes.Value, v values) tftypes.Value {
	tf.t.Helper()
	state, err := tf.apply(resource, prior, v)
	if err != nil {
		tf.t.Fatal(err)
	}
	return state
}

// refused is apply, where it must fail with these words.
func (tf *terraform) refused(resource string, prior tftypes.Value, v values, words string) {
	tf.t.Helper()
	if _, err := tf.apply(resource, prior, v); err == nil || !strings.Contains(err.Error(), words) {
		tf.t.Errorf("%s: %v, want an error that says %q", resource, err, words)
	}
}

// changes reports whether a plan of the configuration would change the state.
func (tf *terraform) changes(resource string, state tftypes.Value, v values) bool {
	tf.t.Helper()
	plan, _, err := tf.plan(resource, state, v)
	if err != nil {
		tf.t.Fatal(err)
	}
	return !tf.static(resource, plan.PlannedState).Equal(state)
}

func (tf *terraform) read(resource string, state tftypes.Value) tftypes.Value {
	tf.t.Helper()
	answer, err := tf.server.ReadResource(tf.t.Context(),
		&tfprotov6.ReadResourceRequest{TypeName: resource, CurrentState: tf.dynamic(state)})
	if err != nil || problems(answer.Diagnostics) != nil {
		tf.t.Fatal(err, problems(answer.Diagnostics))
	}
	return tf.static(resource, answer.NewState)
}

func (tf *terraform) destroy(resource string, state tftypes.Value) error {
	tf.t.Helper()
	none := tf.dynamic(tf.none(resource))
	answer, err := tf.server.ApplyResourceChange(tf.t.Context(),
		&tfprotov6.ApplyResourceChangeRequest{TypeName: resource, PriorState: tf.dynamic(state),
			PlannedState: none, Config: none})
	if err != nil {
		return err
	}
	return problems(answer.Diagnostics)
}

// imported is the state of what exists.
func (tf *terraform) imported(resource, id string) tftypes.Value {
	tf.t.Helper()
	answer, err := tf.server.ImportResourceState(tf.t.Context(),
		&tfprotov6.ImportResourceStateRequest{TypeName: resource, ID: id})
	if err != nil || problems(answer.Diagnostics) != nil {
		tf.t.Fatal(err, problems(answer.Diagnostics))
	}
	return tf.read(resource, tf.static(resource, answer.ImportedResources[0].State))
}

const twoPasses = `
policies:
  api: {limits: [{name: ever, quota: 2, lifetime: {}}], tiers: {large: {ever: {quota: 4}}}}
gates:
  web:
    no_match: allow
    routes: [{match: {prefix: /}, entries: [{policy: api, key: "{ip}"}]}]
`

// passes returns how many of ten checks are allowed.
func passes(t *testing.T, c *client.Client, policy, key string) (n int) {
	t.Helper()
	for range 10 {
		d, err := c.Check(t.Context(), client.Entry(policy, key))
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			n++
		}
	}
	return n
}

// list returns the policies in force.
func list(t *testing.T, url string) *stintv1.ListPoliciesResponse {
	t.Helper()
	answer, err := call(t.Context(), stintv1connect.NewPolicyServiceClient(http.DefaultClient, url).List,
		&stintv1.ListPoliciesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestPolicies(t *testing.T) {
	s := stinttest.Start(t, "policies: {}\n")
	tf := start(t, s.URL, "")
	state := tf.applied("stint_policies", tf.none("stint_policies"), values{"yaml": twoPasses})
	if n := passes(t, s.Client(), "api", "ann"); n != 2 {
		t.Errorf("%d of 10 pass, want 2", n)
	}
	if !strings.Contains(list(t, s.URL).Rules, "web") {
		t.Error("the gate is not in force")
	}
	tf.refused("stint_policies", state,
		values{"yaml": "policies:\n  api: {limits: [{name: ever, quota: many, lifetime: {}}]}\n"}, "yaml:2")
	tf.refused("stint_policies", tf.none("stint_policies"), values{"yaml": strings.ReplaceAll(twoPasses, "api", "web")},
		"import the policies first")

	three := strings.Replace(twoPasses, "quota: 2", "quota: 3", 1)
	older := state
	state = tf.applied("stint_policies", state, values{"yaml": three})
	if n := passes(t, s.Client(), "api", "bob"); n != 3 {
		t.Errorf("%d of 10 pass, want 3", n)
	}
	tf.refused("stint_policies", older, values{"yaml": twoPasses}, "version")

	if imported := tf.imported("stint_policies", "policies"); !strings.Contains(text(t, imported, "yaml"),
		"quota: 3") || !tf.changes("stint_policies", imported, values{"yaml": twoPasses}) {
		t.Errorf("imported: %v", imported)
	}
	other := tf.applied("stint_policies", tf.imported("stint_policies", "policies"), values{"yaml": twoPasses})
	if !tf.changes("stint_policies", tf.read("stint_policies", state), values{"yaml": three}) {
		t.Error("the plan does not see what somebody else has applied")
	}
	if err := tf.destroy("stint_policies", other); err != nil {
		t.Fatal(err)
	}
	if in := list(t, s.URL); len(in.Policies) != 1 || in.Rules == "" {
		t.Errorf("in force after the resource ended: %v", in)
	}
}

func TestOverride(t *testing.T) {
	s := stinttest.Start(t, twoPasses)
	tf := start(t, s.URL, "")
	const resource = "stint_override"
	state := tf.applied(resource, tf.none(resource), values{"policy": "api", "key": "acme/eu", "tier": "large"})
	if n := passes(t, s.Client(), "api", "acme/eu"); n != 4 {
		t.Errorf("with the tier %d of 10 pass, want 4", n)
	}
	seven := values{"policy": "api", "key": "acme/eu", "limits": map[string]any{"ever": map[string]any{"quota": 7}},
		"expires_at": "2999-01-01T01:00:00+01:00"}
	state = tf.applied(resource, state, seven)
	if n := passes(t, s.Client(), "api", "acme/eu"); n != 3 {
		t.Errorf("with three units more %d of 10 pass, want 3", n)
	}
	imported := tf.imported(resource, "default/api/acme/eu")
	if text(t, imported, "expires_at") != "2999-01-01T00:00:00Z" ||
		!attributesOf(t, imported)["limits"].Equal(attributesOf(t, state)["limits"]) {
		t.Errorf("imported: %v", imported)
	}
	// Another key takes the place of the first.
	state = tf.applied(resource, state, values{"policy": "api", "key": "acme", "tier": "large"})
	if read := tf.read(resource, imported); !read.IsNull() {
		t.Errorf("the override of the first key is still there: %v", read)
	}
	tf.refused(resource, tf.none(resource), values{"policy": "missing", "key": "acme"}, "missing")
	tf.refused(resource, tf.none(resource), values{"policy": "api", "key": "acme", "expires_at": "soon"}, "soon")
	tf.refused(resource, tf.none(resource), values{"policy": "api", "key": "acme",
		"limits": map[string]any{"ever": map[string]any{"quota": -1}}}, "quota")
	if err := tf.destroy(resource, state); err != nil {
		t.Fatal(err)
	}
	if read := tf.read(resource, state); !read.IsNull() {
		t.Errorf("the override is there after its end: %v", read)
	}
}

// pages is a cluster that lists one key in a page.
type pages struct {
	stintv1connect.ObserveServiceClient

	keys []string
}

// ListKeys implements stintv1connect.ObserveServiceClient. The cursor is the number of pages before, in stars.
func (p pages) ListKeys(
	_ context.Context, r *connect.Request[stintv1.ListKeysRequest],
) (*connect.Response[stintv1.ListKeysResponse], error) {
	at := len(r.Msg.Cursor)
	if at == len(p.keys) {
		return connect.NewResponse(&stintv1.ListKeysResponse{}), nil
	}
	kept := &stintv1.KeptKey{Policy: "api", Key: p.keys[at], Override: &stintv1.Override{Tier: p.keys[at]}}
	return connect.NewResponse(&stintv1.ListKeysResponse{Keys: []*stintv1.KeptKey{kept},
		NextCursor: r.Msg.Cursor + "*"}), nil
}

func TestAnOverrideIsFoundOnALaterPage(t *testing.T) {
	c := &cluster{observe: pages{keys: []string{"acme2", "acme1", "acme"}}}
	for key, want := range map[string]string{"acme": "acme", "acme1": "acme1", "acme3": ""} {
		found, err := findOverride(t.Context(), c,
			&overrideModel{Policy: types.StringValue("api"), Key: types.StringValue(key)})
		if err != nil || found.GetTier() != want {
			t.Errorf("%s: %v %v, want the tier %q", key, found, err, want)
		}
	}
}

func TestAnOverrideOfAHashedKeyIsNotRead(t *testing.T) {
	s := stinttest.Start(t, twoPasses+"namespaces: {shop: {keys: hashed}}\n")
	tf := start(t, s.URL, "")
	acme := values{"namespace": "shop", "policy": "api", "key": "acme", "tier": "large"}
	state := tf.applied("stint_override", tf.none("stint_override"), acme)
	if tf.read("stint_override", state).IsNull() {
		t.Error("an override that cannot be read is taken for one that ended")
	}
	if err := tf.destroy("stint_override", state); err != nil {
		t.Fatal(err)
	}
}

// admin makes the first token of a cluster, which asks for one from then on.
func admin(t *testing.T, url string) string {
	t.Helper()
	answer, err := call(t.Context(), stintv1connect.NewTokenServiceClient(http.DefaultClient, url).Create,
		&stintv1.CreateTokenRequest{Name: "admin", Grants: []*stintv1.Grant{{Ops: []string{"admin"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Token
}

func TestToken(t *testing.T) {
	s := stinttest.Start(t, twoPasses)
	tf := start(t, s.URL, admin(t, s.URL))
	const resource = "stint_token"
	web := values{"name": "web", "grants": []any{map[string]any{"policies": []any{"api"},
		"ops": []any{"read", "check"}}}, "expires_at": "2999-01-01T00:00:00Z"}
	state := tf.applied(resource, tf.none(resource), web)
	c, err := client.New(client.Config{Addresses: []string{s.URL}, Token: text(t, state, "token")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := passes(t, c, "api", "ann"); n != 2 {
		t.Errorf("with the token %d of 10 pass, want 2", n)
	}
	if id := text(t, state, "id"); id == "" || strings.Contains(id, "_") {
		t.Errorf("the id is %q", id)
	}
	imported := tf.imported(resource, "web")
	if tf.changes(resource, imported, web) || text(t, imported, "token") != "" {
		t.Errorf("imported: %v", imported)
	}
	tf.refused(resource, tf.none(resource), web, "web")

	delete(web, "expires_at")
	replaced := tf.applied(resource, state, web)
	if text(t, replaced, "token") == text(t, state, "token") {
		t.Error("a token that was replaced has the same secret")
	}
	if read := tf.read(resource, state); !read.IsNull() {
		t.Errorf("another token of the name is taken for the first: %v", read)
	}
	if err := tf.destroy(resource, replaced); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(t.Context(), client.Entry("api", "ann")); err == nil {
		t.Error("the first token is still good")
	}
	role := tf.applied(resource, tf.none(resource),
		values{"name": "web", "role": true, "grants": []any{map[string]any{"ops": []any{"check"}}}})
	if text(t, role, "token") != "" || tf.read(resource, replaced).IsNull() == false {
		t.Errorf("the role: %v", role)
	}
}

func TestSink(t *testing.T) {
	s := stinttest.Start(t, twoPasses)
	tf := start(t, s.URL, admin(t, s.URL))
	const resource = "stint_sink"
	hook := values{"name": "hook", "kind": "webhook", "url": "https://192.0.2.1/stint",
		"events": []any{"usage", "threshold"}}
	state := tf.applied(resource, tf.none(resource), hook)
	if !strings.HasPrefix(text(t, state, "secret"), "whsec_") {
		t.Errorf("the secret: %v", state)
	}
	if tf.changes(resource, tf.imported(resource, "hook"), hook) {
		t.Error("a plan after an import changes something")
	}
	bill := values{"name": "bill", "kind": "stripe", "events": []any{"usage"}, "prefix": "customer:",
		"api_key": "sk_test_1"}
	stripe := tf.applied(resource, tf.none(resource), bill)
	bill["api_key"] = "sk_test_2"
	stripe = tf.applied(resource, stripe, bill)
	tf.refused(resource, tf.none(resource), values{"name": "x", "kind": "pigeon", "events": []any{"usage"}}, "kind")
	for _, each := range []tftypes.Value{state, stripe} {
		if err := tf.destroy(resource, each); err != nil {
			t.Fatal(err)
		}
		if read := tf.read(resource, each); !read.IsNull() {
			t.Errorf("the sink is there after its end: %v", read)
		}
	}
}

// A node redirects nobody: the token does not go where another answer sends it.
func TestARedirectIsNotFollowed(t *testing.T) {
	var sent atomic.Pointer[string]
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent.Store(new(r.Header.Get("Authorization")))
	}))
	defer elsewhere.Close()
	node := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer node.Close()
	tf := start(t, node.URL, "stint_x_y")
	tf.refused("stint_sink", tf.none("stint_sink"),
		values{"name": "x", "kind": "webhook", "events": []any{"usage"}}, "307")
	if token := sent.Load(); token != nil {
		t.Errorf("a request went elsewhere, with %q", *token)
	}
}

func TestMistakesInTheProvider(t *testing.T) {
	server, err := providerserver.NewProtocol6WithError(newProvider())()
	if err != nil {
		t.Fatal(err)
	}
	all, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tf := &terraform{t, server, all.ResourceSchemas}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STINT_ADDR", "")
	for says, config := range map[string]values{
		"no base URL":    {},
		"in the clear":   {"address": "http://192.0.2.1:7400", "token": "stint_x_y"},
		"no such file":   {"address": "https://192.0.2.1:7400", "ca_file": empty + "x"},
		"no certificate": {"address": "https://192.0.2.1:7400", "ca_file": empty},
	} {
		answer, err := server.ConfigureProvider(t.Context(),
			&tfprotov6.ConfigureProviderRequest{Config: tf.dynamic(tf.value(all.Provider, config))})
		if err != nil || problems(answer.Diagnostics) == nil ||
			!strings.Contains(problems(answer.Diagnostics).Error(), says) {
			t.Errorf("%v: %v %v, want an error that says %q", config, err, problems(answer.Diagnostics), says)
		}
	}
}

// Every attribute that the page shows is in the schema.
func TestThePageIsTrue(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tf := start(t, "http://127.0.0.1:7400", "")
	resources := regexp.MustCompile(`(?s)resource "(\w+)" "\w+" \{\n(.*?)\n\}`).FindAllStringSubmatch(string(page), -1)
	for _, r := range resources {
		schema := tf.schemas[r[1]]
		if schema == nil {
			t.Errorf("there is no resource %s", r[1])
			continue
		}
		known := schema.ValueType().(tftypes.Object).AttributeTypes
		for _, a := range regexp.MustCompile(`(?m)^  (\w+) += `).FindAllStringSubmatch(r[2], -1) {
			if known[a[1]] == nil {
				t.Errorf("%s has no attribute %s", r[1], a[1])
			}
		}
	}
	if len(resources) != 4 {
		t.Errorf("the page shows %d resources, want 4", len(resources))
	}
}
