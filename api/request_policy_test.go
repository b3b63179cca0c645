package api

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// limitMessages reads limits in the form that they have in a request.
func limitMessages(t *testing.T, limits string) []*stintv1.Limit {
	t.Helper()
	var p stintv1.Policy
	if err := protojson.Unmarshal([]byte(`{"limits":[`+limits+`]}`), &p); err != nil {
		t.Fatal(err)
	}
	return p.Limits
}

// Limits of a request are read as those of a policy, with one shared zone per name.
func TestLimitsOfARequest(t *testing.T) {
	const text = `{"name":"month","quota":"5","calendar":{"unit":"UNIT_MONTH","timeZone":"America/New_York"}},` +
		`{"name":"open","quota":"2","unit":"jobs","shadow":true,"concurrency":{}}`
	first, err := limitsFrom("entries[0]", limitMessages(t, text))
	if err != nil {
		t.Fatal(err)
	}
	again, err := limitsFrom("entries[0]", limitMessages(t, text))
	if err != nil || !first[0].Equal(&again[0].Limit) || !reflect.DeepEqual(first[1], again[1]) {
		t.Errorf("%+v, %v, then %+v", first, err, again)
	}
	if c := first[0].Cycle; c.Zone != again[0].Cycle.Zone {
		t.Error("the zone was loaded twice")
	} else if c.Unit != limit.Month || c.Every != 1 || c.AnchorDay != 1 || c.Zone.String() != "America/New_York" {
		t.Errorf("the month is %+v", c)
	}
	if want := (policy.Limit{Name: "open", Unit: "jobs", Shadow: true,
		Limit: limit.Limit{Algorithm: limit.Concurrency, Quota: 2}}); !reflect.DeepEqual(first[1], want) {
		t.Errorf("got %+v, want %+v", first[1], want)
	}
}

func TestWrongLimitsOfARequestAreRefused(t *testing.T) {
	for _, c := range []struct{ limits, field, message string }{
		{``, "entries[1].limits", "must not be empty"},
		{`{"name":"a","quota":"5"}`, "entries[1].limits[0]", "needs an algorithm, one of fixed_window, " +
			"sliding_window, sliding_log, token_bucket, gcra, calendar, concurrency, lifetime, unlimited"},
		{`{"name":"a","lifetime":{}}`, "entries[1].limits[0].quota", "is missing: 0 would deny everything"},
		{`{"name":"a","quota":"1","reason":"a\u0007b","lifetime":{}}`, "entries[1].limits[0].reason",
			"must be valid UTF-8 without control characters"},
		{`{"name":"a","quota":"1","lifetime":{}},{"name":"a","quota":"1","lifetime":{}}`, "entries[1].limits[1].name",
			"limits[0] is named a too"},
		{`{"quota":"1","lifetime":{}}`, "entries[1].limits[0].name", "is missing"},
		{`{"name":"a","quota":"1","slidingLog":{}}`, "entries[1].limits[0].sliding_log.period", "is missing"},
		{`{"name":"a","quota":"1","calendar":{"unit":"UNIT_DAY","every":99999}}`, "entries[1].limits[0].calendar.every",
			"99999 is more than 65535"},
		{repeat(17, func(int) string { return `{"name":"a","quota":"1","lifetime":{}}` }), "entries[1].limits",
			"has 17 entries: at most 16 are allowed"},
	} {
		_, err := limitsFrom("entries[1]", limitMessages(t, c.limits))
		var wrong *shard.Error
		if !errors.As(err, &wrong) || wrong.Code != shard.Invalid || wrong.Field != c.field ||
			wrong.Message != c.message {
			t.Errorf("%s: %v, want %s: %s", c.limits, err, c.field, c.message)
		}
	}
}

// One policy from a server can be read without the policies that it names.
func TestPolicyFromAMessage(t *testing.T) {
	p, err := PolicyFrom(&stintv1.Policy{Name: "child", Parent: "elsewhere",
		Limits: limitMessages(t, `{"name":"a","quota":"1","lifetime":{}}`)})
	if err != nil || p.Parent != "elsewhere" || p.Limits[0].Quota != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// FuzzPoliciesOf checks that no message panics, and that accepted policies survive a file and come back as the same
// messages.
func FuzzPoliciesOf(f *testing.F) {
	for _, file := range []string{"../policy/dev.yaml", "../policy/testdata/every_field.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		set, err := policy.Parse(file, text)
		if err != nil {
			f.Fatal(err)
		}
		data, err := proto.Marshal(&stintv1.ApplyRequest{Policies: PolicyMessages(set)})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m stintv1.ApplyRequest
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		set, err := PoliciesOf(m.Policies)
		if err != nil {
			return
		}
		text := policy.Format(set)
		if read, err := policy.Parse("formatted", text); err != nil || !bytes.Equal(policy.Format(read), text) {
			t.Fatalf("%v\n%s", err, text)
		}
		if told, err := PoliciesOf(PolicyMessages(set)); err != nil || !bytes.Equal(policy.Format(told), text) {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}
