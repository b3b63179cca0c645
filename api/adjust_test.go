package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

func TestEveryAdjustmentReachesTheDecider(t *testing.T) {
	newYear := limit.Time(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	for op, want := range map[string]struct {
		op         shard.Op
		adjustment shard.Adjustment
	}{
		`"reset":{}`:                                  {shard.Reset, shard.Adjustment{}},
		`"setUsed":"0"`:                               {shard.SetUsed, shard.Adjustment{}},
		`"setUsed":"9007199254740992"`:                {shard.SetUsed, shard.Adjustment{Amount: limit.MaxQuota}},
		`"addUsed":"-5"`:                              {shard.AddUsed, shard.Adjustment{Amount: -5}},
		`"addUsed":"1099511627776"`:                   {shard.AddUsed, shard.Adjustment{Amount: limit.MaxCost}},
		`"unblock":{}`:                                {shard.Unblock, shard.Adjustment{}},
		`"blockUntil":"2027-01-01T00:00:00Z"`:         {shard.Block, shard.Adjustment{Until: newYear}},
		`"blockUntil":"2027-01-01T00:00:00.0000001Z"`: {shard.Block, shard.Adjustment{Until: newYear + 1}},
	} {
		w := newWorld(t)
		code, _, body := w.post("LimitService/Adjust",
			adjusting(op+`,"namespace":"shop","idempotencyId":"a-1","note":"as she asked"`))
		want.adjustment.Actor, want.adjustment.Note = "127.0.0.1", "as she asked"
		asked := w.last()
		if !reflect.DeepEqual(asked, shard.Request{Op: want.op, Namespace: "shop", ID: "a-1",
			Entries: []shard.Entry{{Policy: "per-ip", Key: "k", Cost: 1}}, Adjustment: &want.adjustment}) ||
			code != 200 {
			t.Errorf("%s: asked %+v with %+v; answered %d %s", op, asked, asked.Adjustment, code, body)
		}
	}
}

// A change by hand and a look say what holders may still admit.
func TestAnswersSayWhatIsLeased(t *testing.T) {
	w := newWorld(t)
	open := &shard.SystemAnswer{Lease: &shard.Leased{Units: 40, Ends: noon}}
	for _, open := range []*shard.SystemAnswer{open, nil} {
		w.decider.decide = func(r shard.Request) shard.Result {
			result := allow(r)
			result.Decision.System = open
			return result
		}
		for method, body := range map[string]string{"LimitService/Adjust": adjusting(`"reset":{}`),
			"LimitService/Get":             `{"entries":[{"policy":"per-ip","key":"k"}]}`,
			"PolicyService/PutOverride":    `{"policy":"api","key":"k","tier":"researcher"}`,
			"PolicyService/DeleteOverride": `{"policy":"api","key":"k"}`} {
			code, _, text := w.post(method, body)
			said := strings.Contains(compact(t, text), `"leases":{"units":"40","until":`)
			if code != 200 || said != (open != nil) {
				t.Errorf("%s: %d %s", method, code, text)
			}
		}
	}
}

func TestOverridesReachTheDecider(t *testing.T) {
	w := newWorld(t)
	code, _, body := w.post("PolicyService/PutOverride",
		`{"policy":"api","key":"user:42","tier":"researcher","limits":{`+
			`"burst":{"quota":"9","refill":"0"},"pace":{"rate":"3"}},"expiresAt":"2027-01-01T00:00:00Z",`+
			`"note":"a week",`+
			`"idempotencyId":"o-1"}`)
	nine, none, three := uint64(9), uint64(0), uint64(3)
	want := shard.Request{Op: shard.PutOverride, Namespace: "default", ID: "o-1",
		Entries: []shard.Entry{{Policy: "api", Key: "user:42", Cost: 1}},
		Adjustment: &shard.Adjustment{Actor: "127.0.0.1", Note: "a week", Override: &policy.Override{Tier: "researcher",
			Limits:  map[string]policy.TierLimit{"burst": {Quota: &nine, Refill: &none}, "pace": {Rate: &three}},
			Expires: limit.Time(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())}}}
	if got := w.last(); code != 200 || compact(t, body) != `{}` || !reflect.DeepEqual(got, want) {
		t.Errorf("asked %+v with %+v; answered %d %s", got, got.Adjustment.Override, code, body)
	}
	w.post("PolicyService/PutOverride", `{"policy":"api","key":"user:42","tier":"researcher"}`)
	if o := w.last().Adjustment.Override; !reflect.DeepEqual(o, &policy.Override{Tier: "researcher"}) {
		t.Errorf("a tier alone: %+v", o)
	}
	_, _, body = w.post("PolicyService/DeleteOverride", `{"policy":"api","key":"user:42","note":"over"}`)
	if got := w.last(); got.Op != shard.DeleteOverride || got.Adjustment.Note != "over" ||
		compact(t, body) != `{"deleted":true}` {
		t.Errorf("asked %+v; answered %s", got, body)
	}
	w.decider.decide = func(shard.Request) shard.Result { return shard.Result{Decision: shard.Decision{Allowed: true}} }
	_, _, body = w.post("PolicyService/DeleteOverride", `{"policy":"api","key":"user:42"}`)
	if compact(t, body) != `{"deleted":false}` {
		t.Errorf("there was none: %s", body)
	}
}

// An error of the shard names the field as the caller's message has it.
func TestTheShardsErrorsNameTheFieldsOfTheirCall(t *testing.T) {
	for procedure, c := range map[string]struct{ body, field, want string }{
		"LimitService/Adjust": {adjusting(`"reset":{}`), "entries[0].policy", "policy: is wrong"},
		"PolicyService/PutOverride": {`{"policy":"p","key":"k","tier":"t"}`, "limits.burst.quota",
			"limits.burst.quota: is wrong"},
		"PolicyService/DeleteOverride": {`{"policy":"p","key":"k"}`, "entries[0].policy", "policy: is wrong"},
		"LimitService/CorrectUsage":    {correcting(`,"new":true`), "entries[0].policy", "policy: is wrong"},
		"LimitService/Reserve":         {reserving(`"ttl":"1s"`), "entries[0].tier", "check.entries[0].tier: is wrong"},
		"LimitService/Settle":          {settling(aHold, `"commit":{}`), "hold_id", "hold_id: is wrong"},
	} {
		w := newWorld(t)
		w.decider.decide = fail(&shard.Error{Code: shard.Invalid, Field: c.field, Message: "is wrong"})
		_, _, body := w.post(procedure, c.body)
		if e, _ := readError(t, body); e.Message != c.want {
			t.Errorf("%s: %s", procedure, e.Message)
		}
	}
}

// The record of a change names the actor of the header, else the address that the call came from.
func TestTheActor(t *testing.T) {
	for header, want := range map[string]string{
		"":                       "127.0.0.1",
		"Jo from support":        "Jo from support",
		strings.Repeat("a", 128): strings.Repeat("a", 128),
		"Zoë":                    "Zoë",
		strings.Repeat("a", 129): "error: stint-actor: has 129 bytes: at most 128 are allowed",
		"a\tb":                   "error: stint-actor: must be printable text",
		"a\xff":                  "error: stint-actor: must be printable text",
	} {
		w := newWorld(t)
		r, err := http.NewRequest("POST", w.url+"/stint.v1.LimitService/Adjust",
			strings.NewReader(adjusting(`"reset":{}`)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("stint-actor", header)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Message string }
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		got := "error: " + answer.Message
		if asked := w.decider.requests(); len(asked) > 0 {
			got = asked[0].Adjustment.Actor
		}
		if got != want || err != nil {
			t.Errorf("%q: %q, want %q (%v)", header, got, want, err)
		}
	}
}

// auditing answers as any shard would. Each has changes, some of other policies and namespaces.
func auditing(r shard.Request) shard.Result {
	id := r.Shard
	var records []shard.AuditRecord
	for n := 3; n > 0; n-- {
		for _, key := range []string{"user:42", "user:43"} {
			records = append(records, shard.AuditRecord{At: noon + limit.Time(n)*1e6, Namespace: "default",
				Policy: fmt.Sprintf("p%d", n), Key: key, Actor: "jo", Deed: "set", Limit: "day", Before: "day: 1 of 9",
				After: "day: 2 of 9", Note: "as she asked",
				Position: shard.Position{Shard: id, Epoch: 7, Seq: uint64(n)}})
		}
	}
	records = append(records, shard.AuditRecord{At: noon, Namespace: "shop", Policy: "p1", Key: "user:42",
		Position: shard.Position{Shard: id}})
	return shard.Result{Decision: shard.Decision{Allowed: true, DecidedAt: noon, Position: shard.Position{Shard: id},
		System: &shard.SystemAnswer{Audit: records}}}
}

func (w *world) audit(body string) (lines []string) {
	w.t.Helper()
	code, _, answer := w.post("ObserveService/Audit", body)
	var response struct {
		Records []struct {
			Policy, Key string
			Position    struct{ Shard int }
		}
	}
	if err := json.Unmarshal([]byte(answer), &response); err != nil || code != 200 {
		w.t.Fatalf("%d %s (%v)", code, answer, err)
	}
	for _, r := range response.Records {
		lines = append(lines, fmt.Sprintf("%s %s %d", r.Policy, r.Key, r.Position.Shard))
	}
	return lines
}

func TestTheAuditLogIsThatOfEveryShard(t *testing.T) {
	w := newWorld(t)
	w.shards = 20 // more than are asked at once
	w.decider.decide = auditing
	all := w.audit(`{"count":1000}`)
	if len(all) != 20*6 || all[0] != "p3 user:42 0" || all[39] != "p3 user:43 19" || all[40] != "p2 user:42 0" {
		t.Errorf("%d records: %q", len(all), all)
	}
	asked := map[shard.ID]int{}
	for _, r := range w.decider.requests() {
		if asked[r.Shard]++; r.Op != shard.ReadAudit {
			t.Errorf("asked %+v", r)
		}
	}
	if len(asked) != 20 || len(w.decider.requests()) != 20 || len(w.decider.calls) != 3 {
		t.Errorf("asked %v in %d calls", asked, len(w.decider.calls))
	}
	w.shards = 2
	w.decider.decide = auditing
	for body, want := range map[string][]string{
		`{"key":"user:43","count":2}`:     {"p3 user:43 0", "p3 user:43 1"},
		`{"policy":"p2"}`:                 {"p2 user:42 0", "p2 user:43 0", "p2 user:42 1", "p2 user:43 1"},
		`{"namespace":"shop"}`:            {"p1 user:42 0", "p1 user:42 1"},
		`{"policy":"p1","key":"user:42"}`: {"p1 user:42 0", "p1 user:42 1"},
		`{"policy":"p9"}`:                 nil,
	} {
		if got := w.audit(body); !slices.Equal(got, want) {
			t.Errorf("%s: %q", body, got)
		}
	}
	if got := w.audit(`{}`); len(got) != 12 {
		t.Errorf("%d records", len(got))
	}
	w.shards = 40
	w.decider.decide = auditing
	if got := w.audit(`{}`); len(got) != 100 {
		t.Errorf("%d records without a count", len(got))
	}
}

func TestAnAuditRecordSaysEverything(t *testing.T) {
	w := newWorld(t)
	w.shards = 1
	w.decider.decide = auditing
	_, _, body := w.post("ObserveService/Audit", `{"count":1}`)
	want := `{"records":[{"at":"2026-11-21T12:00:03.250Z","actor":"jo","namespace":"default","policy":"p3",` +
		`"key":"user:42",` +
		`"limit":"day","deed":"set","before":"day: 1 of 9","after":"day: 2 of 9","note":"as she asked",` +
		`"position":{"shard":0,"epoch":"7","seq":"3"}}],"nextCursor":"1795262403250000.0.7.3.1"}`
	if got := compact(t, body); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Part of a log would look like the whole log.
func TestAnAuditOfAClusterThatIsNotThereFails(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = func(r shard.Request) shard.Result {
		if r.Shard == 1 {
			return shard.Result{Err: &shard.Error{Code: shard.Unavailable, Message: "no majority"}}
		}
		return auditing(r)
	}
	_, _, body := w.post("ObserveService/Audit", `{}`)
	if e, _ := readError(t, body); e.Code != "unavailable" || e.Message != "no majority" {
		t.Errorf("%+v", e)
	}
	w.shards = 0
	_, _, body = w.post("ObserveService/Audit", `{}`)
	if e, _ := readError(t, body); e.Code != "unavailable" {
		t.Errorf("no shards: %+v", e)
	}
}
