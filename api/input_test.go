package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/shard"
)

func compact(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(body)); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return b.String()
}

// wireError is a Connect error as a program without protobuf reads it.
type wireError struct {
	Code, Message string
	Details       []struct {
		Type  string
		Debug json.RawMessage
	}
}

type wireFailure struct {
	Code, Message string
	MaybeApplied  bool
}

func readError(t *testing.T, body string) (wireError, wireFailure) {
	t.Helper()
	var e wireError
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	var f wireFailure
	if len(e.Details) == 0 || e.Details[0].Type != "stint.v1.Failure" {
		t.Fatalf("no Failure in %s", body)
	}
	if err := json.Unmarshal(e.Details[0].Debug, &f); err != nil {
		t.Fatal(err)
	}
	return e, f
}

func entry(fields string) string { return `{"entries":[{` + fields + `}]}` }

func repeat(n int, one func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = one(i)
	}
	return strings.Join(parts, ",")
}

func entries(n int) string {
	return `{"entries":[` + repeat(n, func(i int) string {
		return fmt.Sprintf(`{"policy":"per-ip","key":"k%d"}`, i)
	}) + `]}`
}

func adjusting(fields string) string { return `{"policy":"per-ip","key":"k",` + fields + `}` }

func reserving(fields string) string { return `{"check":` + perIP + `,` + fields + `}` }

// Two targets of a settlement. The hold is one of two entries.
var (
	aHold = shard.Target{Hold: true, DecidedAt: noon, Index: 1,
		Position: shard.Position{Shard: 3, Epoch: 17, Seq: 99}}
	aDecision = shard.Target{DecidedAt: noon, Index: 2, Position: shard.Position{Shard: 3, Epoch: 17, Seq: 99}}
)

func entriesOf(t shard.Target) []shard.Entry {
	if t.Hold {
		return []shard.Entry{{Policy: "api", Key: "user:42", Cost: 7}, {Policy: "per-ip", Key: "k", Cost: 1}}
	}
	return []shard.Entry{{Policy: "per-ip", Key: "k", Cost: 1}}
}

func idOfTest(t shard.Target) string { return testSealer.Seal(t, "shop", entriesOf(t)) }

// settling asks for an action on a hold or decision.
func settling(t shard.Target, action string) string {
	field := "decisionId"
	if t.Hold {
		field = "holdId"
	}
	if action != "" {
		action = "," + action
	}
	return `{"` + field + `":"` + idOfTest(t) + `"` + action + `}`
}

func key(k string) string { return entry(`"policy":"per-ip","key":"` + k + `"`) }

func cost(c string) string { return entry(`"policy":"per-ip","key":"k","cost":` + c) }

// badInput breaks each bound of R23, and has all the other requests that are refused before they are counted.
var badInput = []struct{ name, procedure, body, code, message string }{
	{"key too long", "LimitService/Check", key(strings.Repeat("k", 513)), "invalid_argument",
		"entries[0].key: has 513 bytes: at most 512 are allowed"},
	{"no key", "LimitService/Check", entry(`"policy":"per-ip"`), "invalid_argument", "entries[0].key: is missing"},
	{"control character", "LimitService/Check", key(`user\n42`), "invalid_argument",
		"entries[0].key: has the control character U+000A at byte 4"},
	{"C1 control character", "LimitService/Check", key(`\u0085`), "invalid_argument",
		"entries[0].key: has the control character U+0085 at byte 0"},
	{"not UTF-8", "LimitService/Check", key("\xff"), "invalid_argument", "message: "},
	{"no entries", "LimitService/Check", `{}`, "invalid_argument",
		"entries: are missing: a request names at least one policy and key"},
	{"33 entries", "LimitService/Check", entries(33), "invalid_argument", "entries: are 33: at most 32 are allowed"},
	{"the same entry twice", "LimitService/Check",
		`{"entries":[{"policy":"per-ip","key":"k"},{"policy":"per-ip","key":"k","cost":2}]}`, "invalid_argument",
		"entries[1]: repeats entries[0]; add the costs"},
	{"cost 0 with a mode that takes", "LimitService/Check",
		`{"mode":"MODE_COUNT","entries":[{"policy":"per-ip","key":"k","cost":0}]}`, "invalid_argument",
		"entries[0].cost: is 0, which only looks: 1 to 1099511627776 are allowed here"},
	{"Reserve of cost 0", "LimitService/Reserve", `{"check":{"entries":[{"policy":"per-ip","key":"k","cost":0}]}}`,
		"invalid_argument", "check.entries[0].cost: is 0, which only looks"},
	{"cost above 2^40", "LimitService/Check", cost(`"1099511627777"`), "invalid_argument",
		"entries[0].cost: is 1099511627777: 0 to 1099511627776 are allowed"},
	{"negative cost", "LimitService/Check", cost("-1"), "invalid_argument", "message: "},
	{"id too long", "LimitService/Check",
		`{"entries":[{"policy":"p","key":"k"}],"idempotencyId":"` + strings.Repeat("i", 65) + `"}`,
		"invalid_argument", "idempotency_id: has 65 bytes: at most 64 are allowed"},
	{"no policy", "LimitService/Check", entry(`"key":"k"`), "invalid_argument", "entries[0].policy: is missing"},
	{"policy no name", "LimitService/Check", entry(`"policy":"per ip","key":"k"`), "invalid_argument",
		"entries[0].policy: is no name"},
	{"policy too long", "LimitService/Check", entry(`"policy":"` + strings.Repeat("p", 65) + `","key":"k"`),
		"invalid_argument", "entries[0].policy: has 65 bytes: at most 64 are allowed"},
	{"tier no name", "LimitService/Check", entry(`"policy":"per-ip","key":"k","tier":"Gold!"`), "invalid_argument",
		"entries[0].tier: is no name"},
	{"namespace no name", "LimitService/Check", `{"namespace":"a/b","entries":[{"policy":"per-ip","key":"k"}]}`,
		"invalid_argument", "namespace: is no name"},
	{"misspelled field", "LimitService/Check", entry(`"policy":"per-ip","key":"k","csot":5`), "invalid_argument",
		`unknown field "csot"`},
	{"no JSON", "LimitService/Check", `entries`, "invalid_argument", "message: "},
	{"empty body", "LimitService/Check", ``, "invalid_argument", "message: "},
	{"a part of what a parent has, too", "LimitService/Check",
		`{"mode":"MODE_PARTIAL","entries":[{"policy":"vendor","key":"eu/acme"}]}`, "invalid_argument",
		"mode: MODE_PARTIAL takes from each key by itself"},
	{"no such mode", "LimitService/Check", `{"mode":17,"entries":[{"policy":"per-ip","key":"k"}]}`,
		"invalid_argument", "mode: 17 is no mode"},
	{"inline limits that are wrong", "LimitService/Check", entry(`"key":"k","limits":[{"name":"x","quota":1}]`),
		"invalid_argument", "entries[0].limits[0]: needs an algorithm"},
	{"inline limits of one name", "LimitService/Check",
		entry(`"key":"k","limits":[{"name":"x","quota":1,"lifetime":{}},{"name":"x","quota":2,"lifetime":{}}]`),
		"invalid_argument", "entries[0].limits[1].name: "},
	{"17 inline limits", "LimitService/Check", entry(`"key":"k","limits":[` + repeat(17, func(i int) string {
		return fmt.Sprintf(`{"name":"x%d","quota":1,"lifetime":{}}`, i)
	}) + `]`), "invalid_argument", "entries[0].limits"},
	{"inline limits with a tier", "LimitService/Check",
		entry(`"key":"k","tier":"gold","limits":[{"name":"x","quota":1,"lifetime":{}}]`), "invalid_argument",
		"entries[0].tier: is for a policy: the limits of this entry have no tiers"},
	{"inline limits under a wrong name", "LimitService/Check",
		entry(`"policy":"My Limits","key":"k","limits":[{"name":"x","quota":1,"lifetime":{}}]`), "invalid_argument",
		"entries[0].policy: is no name"},
	{"the same label and key twice", "LimitService/Check",
		`{"entries":[{"policy":"p","key":"k"},{"policy":"p","key":"k","limits":[{"name":"x","quota":1,` +
			`"lifetime":{}}]}]}`,
		"invalid_argument", "entries[1]: repeats entries[0]"},
	{"33 entries with those of parents", "LimitService/Check", `{"entries":[` + repeat(31, func(i int) string {
		return fmt.Sprintf(`{"policy":"vendor","key":"%d/x"}`, i)
	}) + `]}`, "invalid_argument", "entries: are 62, with those of the parents of their policies: " +
		"at most 32 are allowed"},
	{"too much for one parent", "LimitService/Check", `{"entries":[` + repeat(2, func(i int) string {
		return fmt.Sprintf(`{"policy":"vendor","key":"a/%d","cost":"1099511627776"}`, i)
	}) + `]}`, "invalid_argument",
		`entries: spend 2199023255552 on "a" by policy "world" together: at most 1099511627776 are allowed`},
	{"empty batch", "LimitService/CheckBatch", `{}`, "invalid_argument", "checks: are missing"},
	{"1,001 checks", "LimitService/CheckBatch",
		`{"checks":[` + repeat(1001, func(int) string { return perIP }) + `]}`, "invalid_argument",
		"checks: are 1001: at most 1000 are allowed"},
	{"body too large", "LimitService/Check", key(strings.Repeat("k", 1<<20)), "invalid_argument",
		"message: a body has at most 1048576 bytes"},
	{"Adjust without op", "LimitService/Adjust", `{"policy":"per-ip","key":"k"}`, "invalid_argument",
		"op: is missing"},
	{"Adjust set_used", "LimitService/Adjust", adjusting(`"setUsed":"9007199254740993"`), "invalid_argument",
		"set_used: is 9007199254740993: at most 9007199254740992 are allowed"},
	{"Adjust add_used 0", "LimitService/Adjust", adjusting(`"addUsed":"0"`), "invalid_argument",
		"add_used: is 0: 1 to 1099511627776 are allowed, or as many taken away"},
	{"Adjust add_used", "LimitService/Adjust", adjusting(`"addUsed":"-1099511627777"`), "invalid_argument",
		"add_used: is -1099511627777: "},
	{"Adjust block_until in the past", "LimitService/Adjust", adjusting(`"blockUntil":"1969-12-31T23:59:59Z"`),
		"invalid_argument", "block_until: is 1969-12-31T23:59:59Z: it must lie ahead"},
	{"Adjust block of a limit", "LimitService/Adjust",
		adjusting(`"limit":"minute","blockUntil":"2027-01-01T00:00:00Z"`), "invalid_argument",
		`limit: is "minute": a block is one of the policy, not of a limit`},
	{"Adjust unblock of a limit", "LimitService/Adjust", adjusting(`"limit":"minute","unblock":{}`), "invalid_argument",
		`limit: is "minute": a block is one of the policy, not of a limit`},
	{"Adjust without policy", "LimitService/Adjust", `{"key":"k","reset":{}}`, "invalid_argument",
		"policy: is missing"},
	{"Adjust without key", "LimitService/Adjust", `{"policy":"per-ip","reset":{}}`, "invalid_argument",
		"key: is missing"},
	{"Adjust with a long note", "LimitService/Adjust",
		adjusting(`"reset":{},"note":"` + strings.Repeat("n", 513) + `"`), "invalid_argument",
		"note: has 513 bytes: at most 512 are allowed"},
	{"Adjust with a control character in the note", "LimitService/Adjust", adjusting(`"reset":{},"note":"a\nb"`),
		"invalid_argument", "note: must have no control characters"},
	{"Adjust with a long id", "LimitService/Adjust",
		adjusting(`"reset":{},"idempotencyId":"` + strings.Repeat("i", 65) + `"`), "invalid_argument",
		"idempotency_id: has 65 bytes"},

	{"Reserve of nothing", "LimitService/Reserve", `{}`, "invalid_argument", "check: is missing: it says what to hold"},
	{"Reserve without entries", "LimitService/Reserve", `{"check":{}}`, "invalid_argument",
		"check.entries: are missing"},
	{"Reserve of a wrong key", "LimitService/Reserve", `{"check":{"entries":[{"policy":"p","key":"a\tb"}]}}`,
		"invalid_argument", "check.entries[0].key: has the control character"},
	{"Reserve with a mode", "LimitService/Reserve", `{"check":{"mode":"MODE_PEEK","entries":[{"policy":"p",` +
		`"key":"k"}]}}`,
		"invalid_argument", "check.mode: is for a check"},
	{"Reserve for no time", "LimitService/Reserve", reserving(`"ttl":"0s"`), "invalid_argument",
		"ttl: is 0s: more than 0 and at most 744h0m0s are allowed"},
	{"Reserve for less than no time", "LimitService/Reserve", reserving(`"ttl":"-1s"`), "invalid_argument",
		"ttl: is -1s: "},
	{"Reserve for too long", "LimitService/Reserve", reserving(`"ttl":"2678400.000001s"`), "invalid_argument",
		"ttl: is 744h0m0.000001s: more than 0 and at most 744h0m0s are allowed"},
	{"Reserve for nanoseconds", "LimitService/Reserve", reserving(`"ttl":"0.000000001s"`), "invalid_argument",
		"ttl: must be whole microseconds, not 1ns"},
	{"Reserve with no such end", "LimitService/Reserve", reserving(`"onExpire":7`), "invalid_argument",
		"on_expire: 7 is no end of a hold"},

	{"Settle of nothing", "LimitService/Settle", `{"commit":{}}`, "invalid_argument",
		"target: is missing: hold_id or decision_id says what to settle"},
	{"Settle of an empty id", "LimitService/Settle", `{"holdId":"","commit":{}}`, "invalid_argument",
		"hold_id: is empty"},
	{"Settle of a forged hold", "LimitService/Settle", `{"holdId":"AQMRYwE","commit":{}}`, "invalid_argument",
		"hold_id: is not an id that this cluster has given out"},
	{"Settle of a forged decision", "LimitService/Settle", `{"decisionId":"AQMRYwE","cancel":{}}`, "invalid_argument",
		"decision_id: is not an id that this cluster has given out"},
	{"Settle with a long id", "LimitService/Settle",
		`{"holdId":"x","commit":{},"idempotencyId":"` + strings.Repeat("i", 65) + `"}`, "invalid_argument",
		"idempotency_id: has 65 bytes"},
	{"Settle without an action", "LimitService/Settle", settling(aHold, ""), "invalid_argument",
		"action: is missing: commit, cancel, extend, success or failed"},
	{"a hold sent as a decision", "LimitService/Settle", `{"decisionId":"` + idOfTest(aHold) + `","cancel":{}}`,
		"invalid_argument", "decision_id: is a hold_id: send it as that"},
	{"a decision sent as a hold", "LimitService/Settle", `{"holdId":"` + idOfTest(aDecision) + `","cancel":{}}`,
		"invalid_argument", "hold_id: is a decision_id: send it as that"},
	{"Settle that extends a decision", "LimitService/Settle", settling(aDecision, `"extend":{"ttl":"5s"}`),
		"invalid_argument", "extend: is for a hold"},
	{"Settle that extends by nothing", "LimitService/Settle", settling(aHold, `"extend":{}`), "invalid_argument",
		"extend.ttl: is missing"},
	{"Settle that extends by too much", "LimitService/Settle", settling(aHold, `"extend":{"ttl":"2678401s"}`),
		"invalid_argument", "extend.ttl: is 744h0m1s: "},
	{"Commit of too many costs", "LimitService/Settle", settling(aHold, `"commit":{"actualCost":["1","2","3"]}`),
		"invalid_argument", "commit.actual_cost: has 3 numbers, and 2 entries were decided"},
	{"Commit of too few costs", "LimitService/Settle", settling(aHold, `"commit":{"actualCost":["1"]}`),
		"invalid_argument", "commit.actual_cost: has 1 numbers, and 2 entries were decided"},
	{"Commit of too much", "LimitService/Settle", settling(aHold, `"commit":{"actualCost":["1","1099511627777"]}`),
		"invalid_argument", "commit.actual_cost[1]: is 1099511627777: at most 1099511627776 are allowed"},
	{"Commit with no such overage", "LimitService/Settle", settling(aHold, `"commit":{"overage":9}`),
		"invalid_argument", "commit.overage: 9 is none"},

	{"PutOverride without policy", "PolicyService/PutOverride", `{"key":"k","tier":"gold"}`, "invalid_argument",
		"policy: is missing"},
	{"PutOverride without key", "PolicyService/PutOverride", `{"policy":"p","tier":"gold"}`, "invalid_argument",
		"key: is missing"},
	{"PutOverride of nothing", "PolicyService/PutOverride", `{"policy":"p","key":"k"}`, "invalid_argument",
		"tier: is missing, and so are limits"},
	{"PutOverride of a wrong tier", "PolicyService/PutOverride", `{"policy":"p","key":"k","tier":"Gold!"}`,
		"invalid_argument", "tier: is no name"},
	{"PutOverride that changes nothing of a limit", "PolicyService/PutOverride",
		`{"policy":"p","key":"k","limits":{"burst":{}}}`, "invalid_argument",
		"limits.burst: changes nothing: quota, refill or rate"},
	{"PutOverride of a wrong limit", "PolicyService/PutOverride",
		`{"policy":"p","key":"k","limits":{"a b":{"quota":"1"}}}`, "invalid_argument",
		"limits: has a name that is no name"},
	{"PutOverride of 17 limits", "PolicyService/PutOverride",
		`{"policy":"p","key":"k","limits":{` + repeat(17, func(i int) string {
			return fmt.Sprintf(`"l%d":{"quota":"1"}`, i)
		}) + `}}`, "invalid_argument", "limits: are 17: at most 16 are allowed"},
	{"PutOverride until 1970", "PolicyService/PutOverride",
		`{"policy":"p","key":"k","tier":"gold","expiresAt":"1970-01-01T00:00:00Z"}`, "invalid_argument",
		"expires_at: is 1970-01-01T00:00:00Z: it must lie ahead"},
	{"PutOverride with a long note", "PolicyService/PutOverride",
		`{"policy":"p","key":"k","tier":"gold","note":"` + strings.Repeat("n", 513) + `"}`, "invalid_argument",
		"note: has 513 bytes"},
	{"DeleteOverride without key", "PolicyService/DeleteOverride", `{"policy":"p"}`, "invalid_argument",
		"key: is missing"},
	{"CorrectUsage without policy", "LimitService/CorrectUsage", `{"key":"k","units":"1","note":"n"}`,
		"invalid_argument", "policy: is missing"},
	{"CorrectUsage of nothing", "LimitService/CorrectUsage", `{"policy":"p","key":"k","note":"n"}`, "invalid_argument",
		"units: are 0: 1 to 1099511627776 are added, or as many taken away"},
	{"CorrectUsage of too many", "LimitService/CorrectUsage",
		`{"policy":"p","key":"k","units":"-1099511627777","note":"n"}`, "invalid_argument",
		"units: are -1099511627777"},
	{"CorrectUsage without a note", "LimitService/CorrectUsage", `{"policy":"p","key":"k","units":"1"}`,
		"invalid_argument", "note: is missing: say why"},
	{"CorrectUsage with a long note", "LimitService/CorrectUsage",
		`{"policy":"p","key":"k","units":"1","note":"` + strings.Repeat("n", 513) + `"}`, "invalid_argument",
		"note: has 513 bytes"},
	{"CorrectUsage of a wrong meter", "LimitService/CorrectUsage",
		`{"policy":"p","key":"k","units":"1","note":"n","meter":"a b"}`, "invalid_argument", "meter: is no name"},
	{"CorrectUsage of a wrong period", "LimitService/CorrectUsage",
		`{"policy":"p","key":"k","units":"1","note":"n","period":"october"}`, "invalid_argument",
		"period: must be the start of a period"},
	{"Lease without policy", "LimitService/Lease", `{"key":"k","holder":"` + holderName + `"}`, "invalid_argument",
		"policy: is missing"},
	{"Lease without key", "LimitService/Lease", `{"policy":"p","holder":"` + holderName + `"}`, "invalid_argument",
		"key: is missing"},
	{"Lease of a wrong tier", "LimitService/Lease", `{"policy":"p","key":"k",` +
		`"tier":"a b","holder":"` + holderName + `"}`,
		"invalid_argument", "tier: is no name"},
	{"Lease of a short holder", "LimitService/Lease", `{"policy":"p","key":"k","holder":"host-1","number":"1",` +
		`"units":"1"}`,
		"invalid_argument", "holder: has 6 bytes: 16 to 64 are allowed"},
	{"Lease of a long holder", "LimitService/Lease",
		`{"policy":"p","key":"k","holder":"` + strings.Repeat("h", 65) + `"}`, "invalid_argument",
		"holder: has 65 bytes"},
	{"Audit of too many", "ObserveService/Audit", `{"count":1001}`, "invalid_argument",
		"count: is 1001: at most 1000 are allowed"},
	{"Audit of a wrong policy", "ObserveService/Audit", `{"policy":"a b"}`, "invalid_argument", "policy: is no name"},
	{"Audit of a wrong key", "ObserveService/Audit", `{"key":"a\tb"}`, "invalid_argument",
		"key: has the control character"},
	{"Top of 17 policies", "ObserveService/Top", `{"policies":[` + repeat(17, func(i int) string {
		return fmt.Sprintf(`"p%d"`, i)
	}) + `]}`,
		"invalid_argument", "policies: are 17: at most 16 are allowed"},
	{"Top of a wrong policy", "ObserveService/Top", `{"policies":["a b"]}`, "invalid_argument",
		"policies: has one that is no name"},
	{"Top of too many", "ObserveService/Top", `{"count":33}`, "invalid_argument",
		"count: is 33: at most 32 are allowed"},
	{"Top of a day", "ObserveService/Top", `{"window":"86400s"}`, "invalid_argument",
		"window: is 24h0m0s: it must be more than 0"},
	{"Top of no time", "ObserveService/Top", `{"window":"0s"}`, "invalid_argument",
		"window: is 0s: it must be more than 0"},
	{"Top in an unknown order", "ObserveService/Top", `{"order":9}`, "invalid_argument",
		"order: is 9, which this version does not know"},
}

func TestBadInputIsRefusedByName(t *testing.T) {
	for _, c := range badInput {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.revision.Set = familyPolicies()
			status, _, body := w.post(c.procedure, c.body)
			e, f := readError(t, body)
			if e.Code != c.code || !strings.Contains(e.Message, c.message) {
				t.Errorf("got %d %s: %s", status, e.Code, e.Message)
			}
			if f.Code != e.Code || f.Message != e.Message || f.MaybeApplied {
				t.Errorf("detail %+v", f)
			}
			if asked := w.decider.requests(); len(asked) > 0 {
				t.Errorf("asked the decider: %+v", asked)
			}
		})
	}
}

func TestBoundsAreInclusive(t *testing.T) {
	w := newWorld(t)
	for name, body := range map[string]string{
		"key of 512 bytes": entry(`"policy":"per-ip","key":"` + strings.Repeat("k", 512) + `"`),
		"unusual key":      entry(`"policy":"per-ip","key":"{acme}/ünï✓ \uFFFD"`),
		"32 entries":       entries(32),
		"cost 1":           entry(`"policy":"per-ip","key":"k","cost":1`),
		"cost 2^40":        entry(`"policy":"per-ip","key":"k","cost":"1099511627776"`),
		"id of 64 bytes":   `{"entries":[{"policy":"p","key":"k"}],"idempotencyId":"` + strings.Repeat("i", 64) + `"}`,
		"one key, two policies": `{"entries":[{"policy":"a","key":"k"},{"policy":"b",` +
			`"key":"k"}]}`,
		"charset": perIP,
	} {
		if status, _, body := w.post("LimitService/Check", body); status != 200 {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	status, _, body := w.do("POST", "/stint.v1.LimitService/Check", "application/json; charset=UTF-8", perIP)
	if status != 200 {
		t.Errorf("charset: %d %s", status, body)
	}
	status, _, body = w.post("LimitService/CheckBatch",
		`{"checks":[`+repeat(1000, func(int) string { return perIP })+`]}`)
	if status != 200 {
		t.Errorf("1,000 checks: %d %s", status, body)
	}
}

// A body that ends exactly at the bound is read; white space fills it up.
func TestBodyOfOneMebibyteIsRead(t *testing.T) {
	w := newWorld(t)
	body := perIP + strings.Repeat(" ", bodyBytesMax-len(perIP))
	if status, _, answer := w.post("LimitService/Check", body); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
}

func TestRequestsReachTheDecider(t *testing.T) {
	w := newWorld(t)
	w.post("LimitService/Check", `{"namespace":"shop","mode":"MODE_PEEK","idempotencyId":"id-1",`+
		`"entries":[{"policy":"api","key":"user:42","cost":"7","tier":"free"},{"policy":"per-ip","key":"k"}]}`)
	w.post("LimitService/Get", perIP)
	w.post("LimitService/Adjust", `{"policy":"api","key":"user:42","limit":"burst","reset":{},"idempotencyId":"id-2"}`)
	want := []shard.Request{
		{Op: shard.Peek, Namespace: "shop", ID: "id-1", Entries: []shard.Entry{
			{Policy: "api", Key: "user:42", Cost: 7, Tier: "free"}, {Policy: "per-ip", Key: "k", Cost: 1}}},
		{Op: shard.Get, Namespace: "default", Entries: []shard.Entry{{Policy: "per-ip", Key: "203.0.113.7", Cost: 1}}},
		{Op: shard.Reset, Namespace: "default", Limit: "burst", ID: "id-2",
			Entries:    []shard.Entry{{Policy: "api", Key: "user:42", Cost: 1}},
			Adjustment: &shard.Adjustment{Actor: "127.0.0.1"}},
	}
	if got := w.decider.requests(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if seen := w.observer.seen(); !slices.Equal(seen,
		[]string{"request Check ok", "request Get ok", "request Adjust ok"}) {
		t.Errorf("a peek, a read and a reset are no decisions: %q", seen)
	}
}

// One wrong check of a batch fails alone, and all others are decided in one call.
func TestBatchFailsOneByOne(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = func(r shard.Request) shard.Result {
		switch r.Entries[0].Key {
		case "denied":
			return deny(r)
		case "lost":
			return shard.Result{Err: &shard.Error{Code: shard.UnknownOutcome, Message: "the log closed"}}
		}
		return allow(r)
	}
	check := func(key, cost string) string { return entry(`"policy":"per-ip","key":"` + key + `","cost":` + cost) }
	_, _, body := w.post("LimitService/CheckBatch", `{"checks":[`+strings.Join([]string{
		check("a", "1"), check("b", `"1099511627777"`), check("denied", "1"), check("lost", "1")}, ",")+`]}`)
	var response struct {
		Results []struct {
			Decision *struct{ Allowed bool }
			Failure  *wireFailure
		}
	}
	if err := json.Unmarshal([]byte(body), &response); err != nil || len(response.Results) != 4 {
		t.Fatalf("%v: %s", err, body)
	}
	got := response.Results
	if got[0].Decision == nil || !got[0].Decision.Allowed {
		t.Errorf("first: %+v", got[0])
	}
	f := got[1].Failure
	if f == nil || f.Code != "invalid_argument" || f.MaybeApplied || !strings.HasPrefix(f.Message, "entries[0].cost") {
		t.Errorf("second: %+v", f)
	}
	if got[2].Decision == nil || got[2].Decision.Allowed {
		t.Errorf("third: %+v", got[2])
	}
	if f := got[3].Failure; f == nil || f.Code != "aborted" || !f.MaybeApplied {
		t.Errorf("fourth: %+v", f)
	}
	if len(w.decider.calls) != 1 || len(w.decider.calls[0]) != 3 {
		t.Errorf("calls: %+v", w.decider.calls)
	}
	want := []string{"decision per-ip allowed", "decision per-ip denied", "request CheckBatch ok"}
	if seen := w.observer.seen(); !slices.Equal(seen, want) {
		t.Errorf("observed %q", seen)
	}
}

// The answer to an id that was counted before is not a second decision.
func TestEveryDecisionIsObservedOnce(t *testing.T) {
	w := newWorld(t)
	var next shard.Decision
	w.decider.decide = func(shard.Request) shard.Result { return shard.Result{Decision: next} }
	var want []string
	for _, c := range []struct {
		outcome  string
		decision shard.Decision
	}{
		{"allowed", shard.Decision{Allowed: true}},
		{"denied", shard.Decision{}},
		{"shadow_denied", shard.Decision{Allowed: true, ShadowDenied: true}},
		{"replayed", shard.Decision{Allowed: true, Replayed: true}},
		{"replayed", shard.Decision{Replayed: true}},
		{"denied_cached", shard.Decision{Age: 1}},
		{"allowed_leased", shard.Decision{Allowed: true, Age: 1}},
	} {
		next = c.decision
		w.post("LimitService/Check", perIP)
		want = append(want, "decision per-ip "+c.outcome, "request Check ok")
	}
	if seen := w.observer.seen(); !slices.Equal(seen, want) {
		t.Errorf("observed %q", seen)
	}
}

// Invalid text from a client is answered with a short sentence and ends nothing else.
func TestWhatIsNoTextIsNamed(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		"":                               "message: is empty: send a JSON object",
		" \r\n":                          "message: is empty: send a JSON object",
		"{\xff}":                         "message: byte 1 is not UTF-8",
		entry(`"key":"a` + "\xff" + `"`): "message: byte 21 is not UTF-8",
		entry(`"policy":"per-ip","key":"\ud800"`): `message: \ud800 at byte 38 is half a character: ` +
			`a surrogate stands in a pair`,
		entry(`"policy":"per-ip","key":"\udc00\ud800"`): `message: \udc00 at byte 38 is half a character: ` +
			`a surrogate stands in a pair`,
		entry(`"policy":"per-ip","key":"\\ud800`): "message: ",
	} {
		code, _, answer := w.post("LimitService/Check", body)
		if e, f := readError(t, answer); code != 400 || !strings.HasPrefix(e.Message, want) || f.MaybeApplied {
			t.Errorf("%q: %d %s, want %s", body, code, e.Message, want)
		}
	}
	if code, _, answer := w.post("LimitService/Check",
		entry(`"policy":"per-ip","key":"\ud83d\ude00\\ud800"`)); code != 200 {
		t.Errorf("a pair of surrogates: %d %s", code, answer)
	}
	digits := strings.Repeat("9", 1_000_000)
	if code, _, answer := w.post("LimitService/Check",
		entry(`"policy":"per-ip","key":"k","cost":`+digits)); code != 400 || len(answer) > 4<<10 {
		t.Errorf("a number of a million digits: %d, %d bytes", code, len(answer))
	}
}

// A call in an unknown form gets the list of known forms.
func TestWrongMethodsAndContentTypesAreTold(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		method, contentType string
		code                int
		want                string
	}{
		{"GET", "", 415, "a GET has its message in the address: ?connect=v1&encoding=json&message=..."},
		{"POST", "application/connect+json", 505, "a stream needs HTTP/2"},
		{"POST", "application/x-www-form-urlencoded", 415, `the content type "application/x-www-form-urlencoded" is ` +
			`not known here: send Content-Type: application/json`},
		{"POST", "", 415, `the content type "" is not known here`},
		{"PUT", "application/json", 405, "the method PUT is not answered here: send POST\n"},
	} {
		procedure := "Check"
		switch {
		case c.code == http.StatusHTTPVersionNotSupported:
			procedure = "CheckStream"
		case c.method == http.MethodGet:
			procedure = "Get"
		}
		r, err := http.NewRequestWithContext(t.Context(), c.method, w.url+"/stint.v1.LimitService/"+procedure,
			strings.NewReader(perIP))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.contentType)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != c.code || !strings.HasPrefix(string(text), c.want) {
			t.Errorf("%s %s: %d %q", c.method, c.contentType, response.StatusCode, text)
		}
	}
}
