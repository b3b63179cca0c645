package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
)

// billed is a bill that a key has before it is corrected.
var billed = shard.Usage{Policy: "plan", Meter: "calls", Key: "ann"}

// A correction of a key without bills would bill a wrong customer, if the key is mistyped.
func TestACorrectionMakesNoCustomerUnasked(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = billing(allow)
	if code, _, body := w.post("LimitService/CorrectUsage", correcting("")); code != 400 ||
		!strings.Contains(body, "has never billed this key") || w.last().Op != shard.ReadUsage {
		t.Errorf("a key without bills: %d %s", code, body)
	}
	if code, _, body := w.post("LimitService/CorrectUsage", correcting(`,"new":true`)); code != 200 ||
		w.last().Op != shard.CorrectUsage {
		t.Errorf("a new one: %d %s", code, body)
	}
}

// corrected answers a correction as a shard does, of a period that is final.
func corrected(r shard.Request) shard.Result {
	if r.Op == shard.ReadUsage {
		return billing(nil, billed)(r)
	}
	page := shard.UsagePage{Through: 200e6,
		Periods: []shard.Usage{{Meter: "calls", Start: 60e6, End: 120e6, Final: 180e6, Units: 7, Credits: 2,
			Corrections: r.Adjustment.Amount, Revision: 9}}}
	return shard.Result{Decision: shard.Decision{Allowed: true, DecidedAt: 200e6, Index: 1,
		System: &shard.SystemAnswer{Usage: &page}}}
}

func correcting(fields string) string {
	return `{"policy":"plan","key":"ann","units":"-500","note":"double import"` + fields + `}`
}

func TestACorrectionReachesTheDecider(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = corrected
	code, _, body := w.post("LimitService/CorrectUsage",
		correcting(`,"namespace":"shop","meter":"calls","period":"2026-10","idempotencyId":"a-1"`))
	want := shard.Request{Op: shard.CorrectUsage, Namespace: "shop", ID: "a-1",
		Entries:    []shard.Entry{{Policy: "plan", Key: "ann", Cost: 1}},
		System:     &shard.SystemTerms{Correction: &shard.Correction{Meter: "calls", Period: "2026-10"}},
		Adjustment: &shard.Adjustment{Amount: -500, Actor: "127.0.0.1", Note: "double import"}}
	if got := w.last(); code != 200 || !reflect.DeepEqual(got, want) {
		t.Errorf("asked %+v with %+v; answered %d %s", got, got.Adjustment, code, body)
	}
	var answer struct {
		Record struct{ ID, Namespace, Policy, Meter, Key, State, Units, Credits, Corrections, Revision string }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	r := answer.Record
	if r.ID != UsageID("ledger", &shard.Usage{Namespace: "shop", Policy: "plan", Meter: "calls", Key: "ann",
		Start: 60e6}) || r.Key != "ann" ||
		r.Namespace != "shop" || r.State != "USAGE_STATE_FINAL" || r.Units != "7" || r.Credits != "2" ||
		r.Corrections != "-500" || r.Revision != "9" {
		t.Errorf("the record is %+v", r)
	}
	w.decider.decide = billing(allow, billed) // an answer that is forgotten
	if code, _, body := w.post("LimitService/CorrectUsage", correcting("")); code != 200 ||
		strings.Contains(body, "use_") {
		t.Errorf("without a bill: %d %s", code, body)
	}
}

// A correction of a hashed key has the id that lists have.
func TestACorrectionOfAHashedKey(t *testing.T) {
	w := newHashingWorld(t)
	w.decider.decide = corrected
	_, _, body := w.post("LimitService/CorrectUsage",
		strings.Replace(correcting(`,"namespace":"shop"`), "ann", plainKey, 1))
	hash := hashOf(t, "shop", plainKey)
	id := UsageID("ledger", &shard.Usage{Namespace: "shop", Policy: "plan", Meter: "calls", Key: hash, Start: 60e6})
	if got := w.last(); got.Entries[0].Key != hash || !got.Hashed || !strings.Contains(body, id) ||
		strings.Contains(body, hash) || !strings.Contains(body, plainKey) {
		t.Errorf("asked %+v, answered %s", got, body)
	}
}

// Neither a reader of bills nor a caller that may adjust limits may correct a bill.
func TestACorrectionNeedsItsOwnGrant(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	k.add(t, "finance", "policy=plan key=customer:* ops=correct")
	k.add(t, "others", "ops=check,settle,read,adjust,override,observe-keys,usage,inline",
		"ops=policies,cluster,backup,tokens,sinks")
	w := newGuardedWorld(t, k.guard)
	w.decider.decide = corrected
	for _, c := range []struct {
		token, policy, key string
		allowed            bool
	}{{"root", "plan", "ann", true}, {"finance", "plan", "customer:acme", true}, {"finance", "plan", "ann", false},
		{"finance", "other", "customer:acme", false}, {"others", "plan", "customer:acme", false}} {
		_, err := stintv1connect.NewLimitServiceClient(withToken(k.text[c.token]), w.url).CorrectUsage(t.Context(),
			connect.NewRequest(&stintv1.CorrectUsageRequest{Policy: c.policy, Key: c.key, Units: 1, Note: "n"}))
		if refused := connect.CodeOf(err) == connect.CodePermissionDenied; err != nil && !refused ||
			refused == c.allowed {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
