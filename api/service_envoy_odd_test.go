package api

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stint-io/stint/shard"
)

// Any input of a client is counted or denied: an error would let it pass. Nor does a client choose the pool that it
// counts in. This holds with hashed keys, too, which have a bound on their parts.
func TestOddValuesOfEnvoy(t *testing.T) {
	for _, file := range []string{envoyFile, envoyFile + "namespaces: {shop: {keys: hashed}}\n"} {
		throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
			newEnvoyWorldOf(t, w, file)
			if file != envoyFile {
				w.keys = hashShop
			}
			ip := func(value string) *ratelimitv3.RateLimitDescriptor {
				return descriptor("per", "minute", "ip", value)
			}
			child := func(name string, hits uint64) *ratelimitv3.RateLimitDescriptor {
				return costing(descriptor("child", name), hits)
			}
			slashes := strings.Repeat("/x", 40)
			most := limited(costing(descriptor("none", slashes), math.MaxUint64), 5, typev3.RateLimitUnit_DAY, 0)
			for i, c := range []struct {
				ask  []*ratelimitv3.RateLimitDescriptor
				want string
			}{
				{[]*ratelimitv3.RateLimitDescriptor{ip("")}, "OK [OK 20/MINUTE 19 left 1m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{ip("")}, "OK [OK 20/MINUTE 18 left 1m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{ip("%empty")}, "OK [OK 20/MINUTE 19 left 1m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{ip("\x00\n")}, "OK [OK 20/MINUTE 19 left 1m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{ip("{}")}, "OK [OK 20/MINUTE 19 left 1m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{ip(slashes)}, "OK [OK 20/MINUTE 19 left 1m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{ip(strings.Repeat("x", 60_000))}, "OK [OK 20/MINUTE 19 left 1m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{descriptor("month", slashes)},
					"OK [OK 4294967295/MONTH 4294967295 left 385h46m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{descriptor("month", "")},
					"OK [OK 4294967295/MONTH 4294967295 left 385h46m0s]"},
				{[]*ratelimitv3.RateLimitDescriptor{descriptor("known", slashes), ip("y")},
					"OVER_LIMIT [OVER_LIMIT] [OK]"},
				{[]*ratelimitv3.RateLimitDescriptor{descriptor("known", "")}, "OVER_LIMIT [OVER_LIMIT]"},
				// They are all below acme.
				{[]*ratelimitv3.RateLimitDescriptor{child("a", 6)}, "OK [OK 8/UNKNOWN 2 left]"},
				{[]*ratelimitv3.RateLimitDescriptor{child("b/c"+slashes, 5)},
					"OVER_LIMIT [OVER_LIMIT 10/UNKNOWN 4 left]"},
				{[]*ratelimitv3.RateLimitDescriptor{child(strings.Repeat("b", 600), 5)},
					"OVER_LIMIT [OVER_LIMIT 10/UNKNOWN 4 left]"},
				{[]*ratelimitv3.RateLimitDescriptor{child("", 4)}, "OK [OK 10/UNKNOWN 0 left]"},
				// More than a cost can be is as much as it can be.
				{[]*ratelimitv3.RateLimitDescriptor{costing(descriptor("per", "minute"), math.MaxUint64)},
					"OVER_LIMIT [OVER_LIMIT 20/MINUTE 20 left]"},
				{[]*ratelimitv3.RateLimitDescriptor{child("d", 1<<40), child("e", 1<<40), child("e", 1<<40)},
					"OVER_LIMIT [OVER_LIMIT 8/UNKNOWN 8 left] [OVER_LIMIT 8/UNKNOWN 8 left] [OVER_LIMIT " +
						"8/UNKNOWN 8 left]"},
				{[]*ratelimitv3.RateLimitDescriptor{most}, "OVER_LIMIT [OVER_LIMIT 5/DAY 5 left]"},
			} {
				if got := shouldRateLimit(t, conn, "edge", c.ask...); got != c.want {
					t.Errorf("%d: got %s, want %s", i, got, c.want)
				}
			}
		})
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                       { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }

// An older Envoy sends the bytes of headers as they are. They are read as a newer one would have sent them.
func TestBytesThatAreNoText(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		newEnvoyWorld(t, w)
		data, err := proto.Marshal(&rlsv3.RateLimitRequest{Domain: "edge",
			Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("per", "second"),
				descriptor("per", "minute", "ip", "\u00e9:AB")}})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(data []byte) (string, error) {
			var m rlsv3.RateLimitResponse
			err := conn.Invoke(t.Context(), EnvoyProcedure, &data, &m, grpc.ForceCodec(rawCodec{}))
			return lineOf(&m), err
		}
		for i, c := range []struct{ bytes, want string }{
			{"\xff\xc3", "OK [OK 50/SECOND 49 left 1s] [OK 20/MINUTE 19 left 1m0s]"},
			{"!!", "OK [OK 50/SECOND 48 left 1s] [OK 20/MINUTE 18 left 1m0s]"},
			{"\x80\x80", "OK [OK 50/SECOND 47 left 1s] [OK 20/MINUTE 17 left 1m0s]"},
			{"!?", "OK [OK 50/SECOND 46 left 1s] [OK 20/MINUTE 19 left 1m0s]"},
		} {
			if got, err := ask(bytes.Replace(data, []byte("AB"), []byte(c.bytes), 1)); err != nil || got != c.want {
				t.Errorf("%d: got %s, %v, want %s", i, got, err, c.want)
			}
		}
		for cut := range len(data) - 1 {
			if _, err := ask(bytes.Replace(data, []byte("AB"), []byte("\xff\xff"), 1)[:cut+1]); err == nil {
				continue // it ends between two fields
			} else if code := status.Code(err); code != codes.InvalidArgument {
				t.Errorf("%d bytes: %v", cut, err)
			}
		}
	})
}

// Entries that deny nothing take no denial back, and keep nothing else from being counted.
func TestADenialByEnvoysRulesStands(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		s := newEnvoyWorld(t, w)
		report, unknown := descriptor("report", "u"), descriptor("report_known", "u")
		banned := descriptor("banned", "x")
		if got := shouldRateLimit(t, conn, "edge", unknown, report, descriptor("per", "second")); got !=
			"OK [OK] [OK 2/MINUTE 1 left 1m0s] [OK 50/SECOND 49 left 1s]" {
			t.Errorf("a report for an unknown key: %s", got)
		}
		if got := shouldRateLimit(t, conn, "edge", costing(unknown, 0)); got != "OVER_LIMIT [OVER_LIMIT]" {
			t.Errorf("a look at an unknown key: %s", got)
		}
		w.decider.instead = deciderFunc(func(ctx context.Context, requests []shard.Request) []shard.Result {
			results := s.Decide(ctx, requests)
			for i := range requests {
				if op := requests[i].Op; op == shard.Count || op == shard.AddUsed {
					results[i] = shard.RefuseAll(1,
						&shard.Error{Code: shard.Unavailable, Message: "the shard is full"})[0]
				}
			}
			return results
		})
		if got := shouldRateLimit(t, conn, "edge", banned, report, back(descriptor("per", "second")), report); got !=
			"OVER_LIMIT [OVER_LIMIT 0/UNKNOWN 0 left] [OK] [OK] [OK]" {
			t.Errorf("a denial beside reports that fail: %s", got)
		}
		if got := shouldRateLimit(t, conn, "edge", descriptor("known", "x"),
			report); got != "OVER_LIMIT [OVER_LIMIT] [OK]" {
			t.Errorf("an unknown key beside a report that fails: %s", got)
		}
		if got := shouldRateLimit(t, conn, "edge", report); got != "Unavailable: the shard is full" {
			t.Errorf("a report that fails: %s", got)
		}
		if got := shouldRateLimit(t, conn, "edge", descriptor("per", "second"), report); got != "Aborted: was "+
			"counted in part: the shard is full" {
			t.Errorf("one that fails behind what was counted: %s", got)
		}
	})
}

// Two limits that Envoy sends for one descriptor are two. One limit with two quotas is the lower one.
func TestOverridesOfOneDescriptor(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		newEnvoyWorld(t, w)
		per := func(quota uint32, unit typev3.RateLimitUnit, times uint32) *ratelimitv3.RateLimitDescriptor {
			return limited(descriptor("path", "/a/b"), quota, unit, times)
		}
		const hour, minute = typev3.RateLimitUnit_HOUR, typev3.RateLimitUnit_MINUTE
		for i, c := range []struct {
			ask  []*ratelimitv3.RateLimitDescriptor
			want string
		}{
			{[]*ratelimitv3.RateLimitDescriptor{per(9, hour, 0), per(1, minute, 0), per(7, minute, 2)},
				"OK [OK 9/HOUR 8 left 46m0s] [OK 1/MINUTE 0 left 1m0s] [OK 7/MINUTE*2 6 left 2m0s]"},
			{[]*ratelimitv3.RateLimitDescriptor{per(9, hour, 0), per(1, minute, 0)},
				"OVER_LIMIT [OK 9/HOUR 8 left 46m0s] [OVER_LIMIT 1/MINUTE 0 left 1m0s]"},
			{[]*ratelimitv3.RateLimitDescriptor{per(9, hour, 0), per(2, hour, 0)},
				"OVER_LIMIT [OVER_LIMIT 2/HOUR 1 left 46m0s] [OVER_LIMIT 2/HOUR 1 left 46m0s]"},
			{[]*ratelimitv3.RateLimitDescriptor{per(3, hour, 0), per(9, hour, 0)},
				"OK [OK 3/HOUR 0 left 46m0s] [OK 3/HOUR 0 left 46m0s]"},
		} {
			if got := shouldRateLimit(t, conn, "edge", c.ask...); got != c.want {
				t.Errorf("%d: got %s, want %s", i, got, c.want)
			}
		}
	})
}
