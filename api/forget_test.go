package api

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// billing answers reads of usage with some bills, and all else as decide does.
func billing(decide func(shard.Request) shard.Result, bills ...shard.Usage) func(shard.Request) shard.Result {
	return func(r shard.Request) shard.Result {
		if r.Op != shard.ReadUsage {
			return decide(r)
		}
		page := shard.UsagePage{Through: 200e6, Periods: bills}
		return shard.Result{Decision: shard.Decision{Allowed: true, System: &shard.SystemAnswer{Usage: &page}}}
	}
}

// A key with bills is forgotten only if the caller confirms that they end too: each shard is told so, and judges by the
// records that it would end.
func TestABillIsForgottenOnlyIfItIsMeant(t *testing.T) {
	w := newWorld(t)
	var unbilled, asked int // so many requests come before its first bill
	w.decider.decide = func(r shard.Request) shard.Result {
		if asked++; !r.Adjustment.Bills && asked > unbilled {
			return shard.Result{Err: &shard.Error{Code: shard.Conflict, Field: "bills", Message: "the key has bills"}}
		}
		return allow(r)
	}
	const partly = "other shards may have forgotten the key already"
	code, _, body := w.post("LimitService/Forget", `{"key":"acme"}`)
	if code != http.StatusBadRequest || !strings.Contains(body, "failed_precondition") ||
		!strings.Contains(body, "bills: the key has bills") || strings.Contains(body, partly) || asked != 1 {
		t.Errorf("unasked: %d %s, after %d requests", code, body, asked)
	}
	unbilled, asked = 2, 0
	if code, _, body := w.post("LimitService/Forget", `{"key":"acme"}`); code != http.StatusBadRequest ||
		!strings.Contains(body, partly) {
		t.Errorf("billed meanwhile: %d %s", code, body)
	}
	if code, _, body := w.post("LimitService/Forget", `{"key":"acme","bills":true}`); code != http.StatusOK ||
		w.last().Op != shard.Forget {
		t.Errorf("asked: %d %s", code, body)
	}
}

// Every shard is asked, the key's own first, until none has anything left.
func TestForgetAsksEveryShardUntilNothingIsLeft(t *testing.T) {
	w := newWorld(t)
	open := uint32(2)
	w.decider.decide = func(r shard.Request) shard.Result {
		d := shard.Decision{Allowed: true,
			System: &shard.SystemAnswer{Forgot: shard.Forgot{Counters: 1, Holds: 2, Operations: 3, Audit: 4}}}
		if r.Shard == 1 && open > 0 && r.Adjustment.Actor == "" {
			open--
			d.System.Forgot.Open = 1
		}
		return shard.Result{Decision: d}
	}
	code, _, body := w.post("LimitService/Forget", `{"namespace":"shop","key":"user:42","note":"as she asked",`+
		`"bills":true}`)
	if code != http.StatusOK || compact(t, body) != `{"counters":10,"holds":20,"operations":30,"auditRecords":40}` {
		t.Errorf("answered %d %s", code, body)
	}
	requests := w.decider.requests()
	if len(requests) != 1+3*3 {
		t.Fatalf("%d requests", len(requests))
	}
	own := requests[0]
	if own.Shard != shard.Of(slot.Even(3), "shop", "user:42") || own.Adjustment.Actor != "127.0.0.1" ||
		own.Adjustment.Note != "as she asked" {
		t.Errorf("the first is %+v with %+v", own, own.Adjustment)
	}
	for i, r := range requests {
		if r.Op != shard.Forget || r.Namespace != "shop" || r.Adjustment.Forget != "user:42" || len(r.Entries) > 0 ||
			i > 0 && (r.Adjustment.Actor != "" || r.Shard != shard.ID((i-1)%3)) {
			t.Errorf("%d: %+v with %+v", i, r, r.Adjustment)
		}
	}
}

// A slot that was on no shard when this was asked is asked for again.
func TestForgetMeetsEverySlot(t *testing.T) {
	w := newWorld(t)
	asked := 0
	w.decider.decide = func(r shard.Request) shard.Result {
		d := shard.Decision{Allowed: true, System: &shard.SystemAnswer{Slots: slotsOf(r.Shard)}}
		if asked++; asked <= 1+3 && r.Shard == 2 {
			d.System.Slots = slotsOf(r.Shard, 1023)
		}
		return shard.Result{Decision: d}
	}
	if code, _, body := w.post("LimitService/Forget", `{"key":"a","bills":true}`); code != http.StatusOK ||
		asked != 1+2*3 {
		t.Errorf("%d %s after %d requests", code, body, asked)
	}
}

func TestWhatIsWrongWithAForget(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		`{}`:                          "key: is missing",
		`{"key":"a\u0007"}`:           "key: has the control character",
		`{"key":"a","note":"\n"}`:     "note: must have no control characters",
		`{"key":"a","namespace":"/"}`: "namespace: ",
	} {
		code, _, answer := w.post("LimitService/Forget", body)
		if code != http.StatusBadRequest || !strings.Contains(answer, want) || len(w.decider.requests()) > 0 {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	w.decider.decide = billing(func(shard.Request) shard.Result {
		return shard.Result{Decision: shard.Decision{System: &shard.SystemAnswer{Forgot: shard.Forgot{Open: 1}}}}
	})
	r, _ := http.NewRequest(http.MethodPost, w.url+"/stint.v1.LimitService/Forget", strings.NewReader(`{"key":"a"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Connect-Timeout-Ms", "300")
	if code, _, answer := w.send(r); code != http.StatusServiceUnavailable ||
		!strings.Contains(answer, "an operation on several shards with this key has not ended yet") {
		t.Errorf("an operation that does not end: %d %s", code, answer)
	}
}

// A caller that may adjust keys under one policy may not end them under all.
func TestAForgetNeedsAGrantUnderEveryPolicy(t *testing.T) {
	k := newTokens()
	for name, grant := range map[string]string{
		"adjust": "ops=adjust", "override": "ops=override", "policy": "policy=api ops=adjust,override",
		"key": "key=user:* ops=adjust,override", "namespace": "ns=shop ops=adjust,override",
	} {
		k.add(t, name, grant)
	}
	w := newGuardedWorld(t, k.guard)
	w.decider.decide = billing(func(shard.Request) shard.Result {
		return shard.Result{Decision: shard.Decision{Allowed: true}}
	})
	for name, want := range map[string]map[string]bool{"adjust": {}, "override": {}, "policy": {}, "namespace": {},
		"key": {"user:1": true}} {
		for _, key := range []string{"user:1", "org:1"} {
			before := len(w.decider.requests())
			_, err := stintv1connect.NewLimitServiceClient(withToken(k.text[name]), w.url).Forget(t.Context(),
				connect.NewRequest(&stintv1.ForgetRequest{Key: key}))
			if want[key] && err != nil || !want[key] && connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%s forgets %s: %v", name, key, err)
			}
			if !want[key] && len(w.decider.requests()) > before {
				t.Errorf("%s was refused %s, and shards were asked", name, key)
			}
		}
	}
}
