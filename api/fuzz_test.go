package api

import (
	"testing"

	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

// FuzzJSON: no text panics, and what is accepted is within every bound.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(perIP))
	f.Add([]byte(`{"namespace":"shop","mode":"MODE_PEEK","idempotencyId":"x",` +
		`"entries":[{"policy":"api","key":"{a}b","cost":"7"}]}`))
	f.Add([]byte(`{"entries":[{"policy":"p","key":"k\u0000"},{"key":"","limits":[{}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzed(t, data, readJSON.Unmarshal)
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
		if r, err := checkRequest(&check); err == nil {
			within(t, &r)
		}
	}
	var adjust stintv1.AdjustRequest
	if unmarshal(data, &adjust) == nil {
		if r, err := adjustRequest(&adjust); err == nil {
			within(t, &r)
		}
	}
}

func within(t *testing.T, r *shard.Request) {
	if r.Namespace == "" || len(r.Namespace) > 64 || len(r.ID) > idBytesMax {
		t.Errorf("namespace %q, id %q", r.Namespace, r.ID)
	}
	if len(r.Entries) == 0 || len(r.Entries) > entriesMax {
		t.Errorf("%d entries", len(r.Entries))
	}
	for _, e := range r.Entries {
		if e.Key == "" || len(e.Key) > 512 || e.Cost == 0 || e.Cost > 1<<40 || e.Policy == "" {
			t.Errorf("entry %+v", e)
		}
	}
}
