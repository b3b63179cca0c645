package api

import (
	"testing"

	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/wire"
	"github.com/stint-io/stint/shard"
)

// FuzzJSON checks that no text panics and that every accepted request is within all bounds.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(perIP))
	f.Add([]byte(`{"namespace":"shop","mode":"MODE_PEEK","idempotencyId":"x",` +
		`"entries":[{"policy":"api","key":"{a}b","cost":"7"}]}`))
	f.Add([]byte(`{"entries":[{"policy":"p","key":"k\u0000"},{"key":"","limits":[{}]}]}`))
	f.Add([]byte(`{"entries":[{"policy":"product","key":"a/b/c","cost":"1099511627776"},{"policy":"product",` +
		`"key":"a/b/d"}]}`))
	f.Add([]byte(`{"check":` + perIP + `,"ttl":"3s","onExpire":"ON_EXPIRE_COMMIT"}`))
	f.Add([]byte(`{"holdId":"AQMRYwE","commit":{"actualCost":["1"]}}`))
	f.Add([]byte(`{"policy":"p","key":"k","limits":{"a":{"quota":"1"}},"expiresAt":"2027-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzed(t, data, wire.UnmarshalJSON)
	})
}

// FuzzProto is FuzzJSON for binary messages.
func FuzzProto(f *testing.F) {
	for _, m := range []*stintv1.CheckRequest{aCheck(), {IdempotencyId: "x", Mode: 9}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzed(t, data, proto.Unmarshal)
	})
}

func fuzzed(t *testing.T, data []byte, unmarshal func([]byte, proto.Message) error) {
	var check stintv1.CheckRequest
	if unmarshal(data, &check) == nil {
		if r, err := checkRequest(fuzzPolicies, &check); err == nil {
			within(t, &r)
		}
	}
	var adjust stintv1.AdjustRequest
	if unmarshal(data, &adjust) == nil {
		if r, err := adjustRequest(&adjust, "somebody"); err == nil {
			within(t, &r)
		}
	}
	var override stintv1.PutOverrideRequest
	if unmarshal(data, &override) == nil {
		if r, err := putOverrideRequest(&override, "somebody"); err == nil {
			within(t, &r)
		}
	}
	var reserve stintv1.ReserveRequest
	if unmarshal(data, &reserve) == nil {
		if r, err := reserveRequest(fuzzPolicies, &reserve); err == nil {
			within(t, &r)
			if r.Hold.TTL <= 0 || r.Hold.TTL > shard.MaxHoldTTL {
				t.Errorf("ttl %d", r.Hold.TTL)
			}
		}
	}
	var settle stintv1.SettleRequest
	if unmarshal(data, &settle) == nil {
		if r, err := settleRequest(fuzzSealer.Open, fuzzPolicies, &settle); err == nil {
			t.Errorf("a forged id: %+v", r)
		}
	}
}

var fuzzPolicies = familyPolicies()

var fuzzSealer = shard.NewSealer(1, shard.SealingSecret{Number: 1, Key: [32]byte{7}})

func within(t *testing.T, r *shard.Request) {
	if r.Namespace == "" || len(r.Namespace) > 64 || len(r.ID) > idBytesMax {
		t.Errorf("namespace %q, id %q", r.Namespace, r.ID)
	}
	if len(r.Entries) == 0 || len(r.Entries) > entriesMax {
		t.Errorf("%d entries", len(r.Entries))
	}
	for _, e := range r.Entries {
		if e.Key == "" || len(e.Key) > 512 || e.Cost == 0 || e.Cost > 1<<40 || e.Policy == "" && len(e.Limits) == 0 {
			t.Errorf("entry %+v", e)
		}
	}
}
