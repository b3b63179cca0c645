package api

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// onePolicy is a request that changes per-ip and ends api.
const onePolicy = `{"note":"less","policies":[{"name":"per-ip","limits":[` +
	`{"name":"minute","quota":"50","fixedWindow":{"period":"60s"}}]}]}`

func applied(t *testing.T, body string) *stintv1.ApplyResponse {
	t.Helper()
	var response stintv1.ApplyResponse
	if err := protojson.Unmarshal([]byte(body), &response); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return &response
}

func TestApply(t *testing.T) {
	w := newWorld(t)
	w.cluster.version, w.cluster.pending = 8, []uint32{1, 3}
	_, _, body := w.post("PolicyService/Apply", onePolicy)
	response := applied(t, body)
	if response.Version != 8 || !slices.Equal(response.PendingShards, []uint32{1, 3}) || len(response.Changes) != 2 {
		t.Fatalf("got %s", body)
	}
	gone, changed := response.Changes[0], response.Changes[1]
	if gone.Before.GetName() != "api" || gone.After != nil {
		t.Errorf("api: %v", gone)
	}
	if changed.Before.GetLimits()[0].GetQuota() != 100 || changed.After.GetLimits()[0].GetQuota() != 50 {
		t.Errorf("per-ip: %v", changed)
	}
	if p, ok := w.cluster.applied.Lookup("per-ip"); !ok || p.Limits[0].Quota != 50 ||
		p.Retention != policy.DefaultRetention {
		t.Errorf("the cluster was given %s", policy.Format(w.cluster.applied))
	}
	if seen := w.cluster.seen(); w.cluster.expected != nil || !slices.Equal(seen, []string{"apply less"}) {
		t.Errorf("asked %q, expecting %v", seen, w.cluster.expected)
	}
	// Version 0 is an ordinary version and does not mean "any".
	w.post("PolicyService/Apply", strings.Replace(onePolicy, "{", `{"expectedVersion":"0",`, 1))
	if w.cluster.expected == nil || *w.cluster.expected != 0 {
		t.Errorf("expecting %v", w.cluster.expected)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	w := newWorld(t)
	_, _, body := w.post("PolicyService/Apply",
		strings.Replace(onePolicy, "{", `{"dryRun":true,"expectedVersion":"7",`, 1))
	if response := applied(t, body); response.Version != 7 || len(response.Changes) != 2 ||
		len(response.PendingShards) != 0 {
		t.Errorf("got %s", body)
	}
	_, _, body = w.post("PolicyService/Apply",
		strings.Replace(onePolicy, "{", `{"dryRun":true,"expectedVersion":"6",`, 1))
	e, f := readError(t, body)
	if e.Code != "failed_precondition" || f.MaybeApplied || e.Message !=
		"expected_version: version 6 was expected, and version 7 is in force; nothing was changed" {
		t.Errorf("got %s", body)
	}
	if len(w.cluster.seen()) > 0 {
		t.Error("the cluster was asked")
	}
}

// Everything that a file can say survives the way over the wire.
func TestPoliciesSurviveTheWire(t *testing.T) {
	for _, file := range []string{"../policy/dev.yaml", "../policy/testdata/every_field.yaml",
		"../policy/testdata/awkward_names.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set, err := policy.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		data, err := proto.Marshal(&stintv1.ApplyRequest{Policies: PolicyMessages(set)})
		if err != nil {
			t.Fatal(err)
		}
		var m stintv1.ApplyRequest
		if err := proto.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		again, err := PoliciesOf(m.Policies)
		if err != nil || !bytes.Equal(policy.Format(again), policy.Format(set)) {
			t.Errorf("%s: %v\n%s", file, err, policy.Format(again))
		}
	}
}

// A wrong set is refused as a whole, and the error names every wrong field.
func TestWrongPoliciesAreRefused(t *testing.T) {
	limits := func(limit string) string { return `{"policies":[{"name":"p","limits":[` + limit + `]}]}` }
	fixed := func(period string) string {
		return limits(`{"name":"a","quota":"1","fixedWindow":{"period":"` + period + `"}}`)
	}
	const lifetime = `{"name":"a","quota":"1","lifetime":{}}`
	policyOf := func(field string) string {
		return `{"policies":[{"name":"p","limits":[` + lifetime + `],` + field + `}]}`
	}
	for _, c := range []struct{ body, code, message string }{
		{`{}`, "invalid_argument", "policies: are missing: a set has at least one"},
		{`{"policies":[],"dryRun":true}`, "invalid_argument", "policies: are missing: a set has at least one"},
		{strings.Replace(onePolicy, "less", strings.Repeat("x", 513), 1), "invalid_argument",
			"note: has 513 bytes: at most 512 are allowed"},
		{strings.Replace(onePolicy, "less", `a\u0007b`, 1), "invalid_argument",
			"note: must have no control characters"},
		{limits(`{"name":"a","lifetime":{}}`), "invalid_argument",
			"policies.p.limits[0].quota: is missing: 0 would deny everything"},
		{policyOf(`"unknownKey":9`), "invalid_argument", "policies.p.unknown_key: must be allow or deny, not 9"},
		{limits(`{"name":"a","quota":"9007199254740993","lifetime":{}},{"name":"B","quota":"1","lifetime":{}}`),
			"invalid_argument", "policies.p.limits[1].name: is no name: a name is made of a-z, 0-9, _, . " +
				"and -, and starts with a letter or a digit; policies.p.limits[0].quota: " +
				"9007199254740993 is more than 9007199254740992"},
		{limits(`{"name":"a","quota":"1"}`), "invalid_argument", "policies.p.limits[0]: needs an algorithm"},
		{limits(`{"name":"a","quota":"1","fixedWindow":{}}`), "invalid_argument",
			"policies.p.limits[0].fixed_window.period: is missing"},
		{limits(`{"name":"a","quota":"1","fixedWindow":{"period":"1s","anchor":9}}`), "invalid_argument",
			"policies.p.limits[0].fixed_window.anchor: must be epoch or first_hit, not 9"},
		{fixed("-1s"), "invalid_argument", "policies.p.limits[0].fixed_window.period: must be more than 0, not -1s"},
		{fixed("0.0000015s"), "invalid_argument",
			"policies.p.limits[0].fixed_window.period: must be whole microseconds, not 1.5µs"},
		{fixed("315576000000s"), "invalid_argument", "policies.p.limits[0].fixed_window.period: " +
			"is more than 292 years"},
		{`{"policies":[{"name":"p","limits":[` + lifetime + `],"idempotencyRetention":"0s"}]}`, "invalid_argument",
			"policies.p.idempotency_retention: must be more than 0, not 0s"},
		{`{"policies":[{"name":"","limits":[` + lifetime + `],"idempotencyRetention":"-1s"}]}`, "invalid_argument",
			"policies[0].idempotency_retention: must be more than 0, not -1s"},
		{`{"policies":[{"name":"p","limits":[` + lifetime + `]},{"name":"p","limits":[` + lifetime + `]}]}`,
			"invalid_argument", "policies.p: is there twice"},
		{limits(`{"name":"a","quota":"1","calendar":{}}`), "invalid_argument",
			"policies.p.limits[0].calendar.unit: is missing"},
		{limits(`{"name":"a","quota":"1","calendar":{"unit":262}}`), "invalid_argument",
			"policies.p.limits[0].calendar.unit: must be minute, hour, day, week, month or year, not 262"},
		{limits(`{"name":"a","quota":"1","calendar":{"unit":"UNIT_MONTH","anchorDay":257}}`), "invalid_argument",
			"policies.p.limits[0].calendar.anchor_day: 257 is more than 255"},
		{limits(`{"name":"a","quota":"1","calendar":{"unit":"UNIT_MONTH","anchorDay":32}}`), "invalid_argument",
			"policies.p.limits[0].calendar.anchor_day: must be 1 to 31, is 32"},
		{limits(`{"name":"a","quota":"1","calendar":{"unit":"UNIT_WEEK","weekStart":257}}`), "invalid_argument",
			"policies.p.limits[0].calendar.week_start: 257 is more than 255"},
		{limits(`{"name":"a","quota":"1","calendar":{"unit":"UNIT_DAY","every":65537}}`), "invalid_argument",
			"policies.p.limits[0].calendar.every: 65537 is more than 65535"},
		{limits(`{"name":"a","quota":"1","calendar":{"unit":"UNIT_DAY","timeZone":"Local"}}`), "invalid_argument",
			`policies.p.limits[0].calendar.time_zone: "Local" is not a time zone of the IANA database`},
		{policyOf(`"lockout":{"after":3}`), "invalid_argument", "policies.p.lockout.base: is missing"},
		{policyOf(`"lockout":{"base":"1s"}`), "invalid_argument", "policies.p.lockout.after: is missing"},
		{policyOf(`"lockout":{"after":3,"base":"2s","max":"1s"}`), "invalid_argument",
			"policies.p.lockout.max: 1s is less than the first block, base: 2s"},
		{policyOf(`"lockout":{"after":3,"base":"2s","onDenied":true}`), "invalid_argument",
			"policies.p.lockout.on_denied: needs count_denied: true"},
		{policyOf(`"onExpire":3`), "invalid_argument", "policies.p.on_expire: must be cancel or commit, not 3"},
		{policyOf(`"onChange":5`), "invalid_argument", "policies.p.on_change: " +
			"must be as_is, proportional, additive or reset, not 5"},
		{policyOf(`"parent":"q"`), "invalid_argument", "policies.p.parent: there is no policy q"},
		{policyOf(`"denyCache":"0s"`), "invalid_argument", "policies.p.deny_cache: must be more than 0, not 0s"},
		{policyOf(`"denyCache":"10.1s"`), "invalid_argument",
			"policies.p.deny_cache: must be at least 1us and at most 10s"},
		{policyOf(`"denyCache":"1s","countDenied":true`), "invalid_argument",
			"policies.p.deny_cache: cannot be with count_denied"},
	} {
		w := newWorld(t)
		_, _, body := w.post("PolicyService/Apply", c.body)
		if e, f := readError(t, body); e.Code != c.code || !strings.HasPrefix(e.Message, c.message) || f.MaybeApplied {
			t.Errorf("%s\ngot  %s: %s\nwant %s: %s", c.body, e.Code, e.Message, c.code, c.message)
		}
		if len(w.cluster.seen()) > 0 {
			t.Errorf("%s reached the cluster", c.body)
		}
	}
	many := limits(repeat(16, func(int) string { return `{"name":"A","quota":"9007199254740993","lifetime":{}}` }))
	w := newWorld(t)
	if _, _, body := w.post("PolicyService/Apply", many); !strings.Contains(body, "; and ") {
		t.Errorf("many problems: %s", body)
	}
}

// A header style that would show nothing is a mistake, which is reported when the policies are applied. Policies in
// force that have it stay readable.
func TestApplyRefusesAnXQuotaOfNothing(t *testing.T) {
	w := newWorld(t)
	const body = `{"dryRun":true,"policies":[{"name":"p","headers":["x-quota"],"limits":[{"name":"%s","quota":"3",` +
		`"lifetime":{}}]}]}`
	code, _, answer := w.post("PolicyService/Apply", fmt.Sprintf(body, "month"))
	if e, _ := readError(t, answer); code != 400 ||
		!strings.HasPrefix(e.Message, "policies.p.headers: x-quota shows the limit named daily") {
		t.Errorf("%d %s", code, answer)
	}
	if code, _, answer := w.post("PolicyService/Apply", fmt.Sprintf(body, "daily")); code != 200 {
		t.Errorf("%d %s", code, answer)
	}
}
