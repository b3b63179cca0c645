package shard

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// A batch with effects that fill an entry stops there. The rest is decided in later batches, and nothing is lost or
// done twice.
func TestLargeBatchesAreCut(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	requests := make([]Request, 5000)
	for i := range requests {
		requests[i] = checkOf("p", fmt.Sprintf("%0512d", i), 1)
	}
	entries, rest := 0, requests
	for len(rest) > 0 {
		at := w.next(origin + limit.Time(entries))
		results, puts := Evaluate(w, w.policies, rest, at)
		payload := EncodeBatch(at, puts)
		if len(results) == 0 || len(payload) > MaxEntryBytes || len(puts) != len(results) {
			t.Fatalf("%d answers and %d effects in an entry of %d bytes", len(results), len(puts), len(payload))
		}
		if len(results) < len(rest) && len(payload) < MaxEntryBytes/2 {
			t.Errorf("cut at %d bytes already", len(payload))
		}
		for i := range results {
			if used := results[i].Decision.Limits[0].Used; used != 1 {
				t.Fatalf("key %s has %d used", rest[i].Entries[0].Key, used)
			}
		}
		w.append(payload)
		rest = rest[len(results):]
		entries++
	}
	if entries < 10 || w.state.Records() != len(requests) {
		t.Errorf("%d entries made %d records", entries, w.state.Records())
	}
}

// One request that is larger than an entry is still decided, alone.
func TestOneRequestLargerThanAnEntry(t *testing.T) {
	l := limit.Limit{Algorithm: limit.SlidingLog, Quota: 10_000, Period: day}
	w := newWorld(t, onePolicy(l))
	now, full := origin, limit.State{}
	for range 5000 {
		now += limit.Time(second)
		full, _ = limit.Take(l, full, 1, now)
	}
	request := Request{Op: Check, Namespace: "default"}
	for i := range 32 {
		e := Entry{Policy: "p", Key: fmt.Sprint(i), Cost: 1}
		request.Entries = append(request.Entries, e)
		c := counter{key: string(appendCounterKey(nil, "default", "p", e.Key)), policy: inlinePolicy,
			limits: []counted{{name: "a", limit: l, state: full}}}
		w.append(EncodeBatch(w.next(now), []Put{c.encode(now)}))
	}
	at := w.next(now + 1)
	results, puts := Evaluate(w, w.policies, []Request{request, request}, at)
	payload := EncodeBatch(at, puts)
	w.append(payload)
	if len(payload) <= MaxEntryBytes || len(results) != 1 || results[0].Decision.Limits[31].Used != 5001 {
		t.Fatalf("an entry of %d bytes holds %d requests", len(payload), len(results))
	}
}

// Every invalid request gets its own error with the field at fault, and does not affect the next one in the batch.
func TestWrongRequests(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	entry := Entry{Policy: "p", Key: "k", Cost: 1}
	for _, c := range []struct {
		request Request
		code    Code
		field   string
	}{
		{Request{Op: Check, Entries: []Entry{entry, {Policy: "nobody", Key: "k", Cost: 1}}}, PolicyNotFound,
			"entries[1].policy"},
		{Request{Op: Check, Entries: []Entry{entry, {Policy: "p", Key: "j", Cost: 1, Tier: "gold"}}}, Invalid,
			"entries[1].tier"},
		{Request{Op: Check, Entries: []Entry{entry, entry}}, Invalid, "entries[1]"},
		{Request{Op: Reset, Entries: []Entry{entry}, Limit: "z"}, Invalid, "limit"},
		{Request{Op: Check, Entries: []Entry{entry}, NotAfter: origin}, TooLate, ""},
	} {
		results, puts := Evaluate(w, w.policies, []Request{c.request, checkOf("p", "k", 1)}, w.next(origin+1))
		err := results[0].Err
		if err == nil || err.Code != c.code || err.Field != c.field || err.MaybeApplied() || err.Message == "" {
			t.Errorf("%+v: %+v", c.request, err)
		}
		if !strings.HasPrefix(err.Error(), c.field) {
			t.Errorf("%q does not begin with the field %q", err, c.field)
		}
		if d := results[1].Decision; !d.Allowed || d.Limits[0].Used != 1 || d.Index != 1 || len(puts) != 1 {
			t.Errorf("after %+v: %+v, %d effects", c.request, d, len(puts))
		}
	}
}

// Idempotency records live for the longest retention of the request's policies.
func TestRetentionIsTheLongest(t *testing.T) {
	short, long := onePolicy(windowLimit), onePolicy(windowLimit)
	short.Retention, long.Name, long.Retention = second, "q", minute
	w := newWorld(t, short, long)
	request := Request{Op: Check, ID: "first", Entries: []Entry{
		{Policy: "p", Key: "k", Cost: 1}, {Policy: "q", Key: "k", Cost: 1}, {Policy: "p", Key: "j", Cost: 1}}}
	_, puts := w.batch(origin, request)
	if got := puts[len(puts)-1].ForgetAt; got != origin+limit.Time(minute) {
		t.Errorf("forgotten after %d us", got-origin)
	}
}

// The index counts the counted requests, so that a handle identifies one request.
func TestIndexCountsCountedRequests(t *testing.T) {
	w := newWorld(t, onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 3}))
	request := func(op Op, cost uint64) Request {
		r := checkOf("p", "k", cost)
		r.Op = op
		return r
	}
	results, _ := w.batch(origin, request(Check, 1), request(Peek, 1), request(Check, 9), request(Get, 1),
		request(Check, 1), request(Check, 2), request(Check, 1))
	var indexes []uint32
	for _, r := range results {
		indexes = append(indexes, r.Decision.Index)
	}
	if want := []uint32{1, 0, 0, 0, 2, 0, 3}; !reflect.DeepEqual(indexes, want) {
		t.Errorf("indexes %v, expected %v", indexes, want)
	}
}

// A limit that is moved within the policy keeps its state, which is found by name.
func TestLimitsAreKnownByName(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit, logLimit))
	w.batch(origin+1, checkOf("p", "k", 3))
	turned := onePolicy(logLimit, windowLimit)
	turned.Limits[0].Name, turned.Limits[1].Name = "b", "a"
	w.policies = policy.NewSet([]*policy.Policy{turned})
	results, _ := w.batch(origin+2, checkOf("p", "k", 1))
	for _, l := range results[0].Decision.Limits {
		if l.Used != 4 {
			t.Errorf("%s has %d used", l.Limit, l.Used)
		}
	}
}
