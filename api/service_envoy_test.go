package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const envoyFile = `
policies:
  second: {limits: [{name: second, quota: 50, fixed_window: {period: 1s}}]}
  minute: {reason: Slow down, headers: [ietf, x-ratelimit], limits: [{name: minute, quota: 20, fixed_window: {period: 60s}}]}
  ban: {limits: [{name: ban, quota: 0, lifetime: {}}]}
  free: {limits: [{name: free, unlimited: {}}]}
  trial: {shadow: true, limits: [{name: day, quota: 1, fixed_window: {period: 24h}}]}
  month: {limits: [{name: month, quota: 5_000_000_000, calendar: {unit: month}}]}
  ten: {limits: [{name: burst, quota: 8, token_bucket: {refill: 8, per: 10m}}]}
  odd: {limits: [{name: odd, quota: 9, fixed_window: {period: 1500ms}}]}
  several: {limits: [{name: wide, quota: 100, fixed_window: {period: 1h}}, {name: tight, quota: 3, fixed_window: {period: 60s}}]}
  known: {unknown_key: deny, limits: [{name: minute, quota: 3, fixed_window: {period: 60s}}]}
  pool: {limits: [{name: pool, quota: 10, lifetime: {}}]}
  tokens: {reason: Look, limits: [{name: tokens, quota: 2, fixed_window: {period: 60s}}]}
  child: {parent: pool, limits: [{name: own, quota: 8, lifetime: {}}]}
  files: {limits: [{name: all, quota: 2, lifetime: {}}]}
envoy:
  edge:
    namespace: shop
    rules:
      - {match: [{per: second}], entries: [{policy: second}]}
      - {match: [{per: minute}, {ip: "*"}], name: per-ip, entries: [{policy: minute, key: "{ip}"}]}
      - {match: [{per: minute}], entries: [{policy: minute, cost: 2}]}
      - {match: [{file: "/files/*"}], entries: [{policy: files, key: "file=%2Ffiles%2F*"}]}
      - {match: [{banned: "*"}], entries: [{policy: ban}]}
      - {match: [{free: "*"}], entries: [{policy: free}]}
      - {match: [{trial: "*"}], entries: [{policy: trial}]}
      - {match: [{month: "*"}], entries: [{policy: month}]}
      - {match: [{ten: "*"}], entries: [{policy: ten}]}
      - {match: [{odd: "*"}], entries: [{policy: odd}]}
      - {match: [{several: "*"}], entries: [{policy: several}]}
      - {match: [{known: "*"}], entries: [{policy: known, key: "{known}"}]}
      - {match: [{vip: "*"}], replaces: [per-ip], entries: []}
      - {match: [{report: "*"}], entries: [{policy: tokens, key: "{report}", mode: count}]}
      - {match: [{report_known: "*"}], entries: [{policy: known, key: "{report_known}", mode: count}]}
      - {match: [{look: "*"}], entries: [{policy: tokens, key: "{look}", cost: 0}]}
      - {match: [{look_past: "*"}], look_past_quota: true, entries: [{policy: tokens, key: "{look_past}", cost: 0}]}
      - {match: [{shadowed: "*"}], entries: [{policy: tokens, key: "{shadowed}", mode: shadow}]}
      - {match: [{child: "*"}], entries: [{policy: child, key: "acme/{child}"}]}
`

// oneShard is a Decider: one shard and its clock.
type oneShard struct {
	t        *testing.T
	mu       sync.Mutex
	policies *policy.Set
	state    *shard.State
	now      limit.Time
}

type roomy struct{ *shard.State }

func (roomy) Room() shard.Room { return shard.Room{} }

func (s *oneShard) install(payload []byte, index uint64) {
	if outcome, err := s.state.Install(payload, index, 1); err != nil || outcome.Dropped != shard.NotDropped {
		s.t.Errorf("installing: %v %v", outcome, err)
	}
}

func (s *oneShard) Decide(_ context.Context, requests []shard.Request) []shard.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now++
	at := shard.Stamp{Position: shard.Position{Shard: 1, Epoch: 1, Seq: s.state.Seq() + 1}, Now: s.now}
	results, puts := shard.Evaluate(roomy{s.state}, s.policies, requests, at)
	s.install(shard.EncodeBatch(at, puts), s.state.Seq()+2)
	return results
}

func (s *oneShard) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += limit.Time(d.Microseconds())
}

// newEnvoyWorld makes a world that counts by envoyFile, at a full minute.
func newEnvoyWorld(t *testing.T, w *world) *oneShard { return newEnvoyWorldOf(t, w, envoyFile) }

func newEnvoyWorldOf(t *testing.T, w *world, file string) *oneShard {
	t.Helper()
	set, err := policy.Parse("policies.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	s := &oneShard{t: t, policies: set, state: shard.NewState(1), now: 1_700_000_040e6}
	s.install(shard.EncodeEpochOpen(1, s.now, shard.LevelNewest), 1)
	w.revision = &policy.Revision{Version: 1, Set: set}
	w.decider.instead = s
	return s
}

// descriptor makes a descriptor of keys and values.
func descriptor(pairs ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func costing(d *ratelimitv3.RateLimitDescriptor, hits uint64) *ratelimitv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

func back(d *ratelimitv3.RateLimitDescriptor) *ratelimitv3.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

func limited(
	d *ratelimitv3.RateLimitDescriptor, quota uint32, unit typev3.RateLimitUnit, times uint32,
) *ratelimitv3.RateLimitDescriptor {
	d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: quota, Unit: unit}
	if times != 0 {
		d.Limit.UnitMultiplier = wrapperspb.UInt32(times)
	}
	return d
}

// shouldRateLimit asks as Envoy does, and returns the answer in one line: "OK [OK 50/SECOND 49 left 1s]".
func shouldRateLimit(
	t *testing.T, conn *grpc.ClientConn, domain string, descriptors ...*ratelimitv3.RateLimitDescriptor,
) string {
	t.Helper()
	m, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
		&rlsv3.RateLimitRequest{Domain: domain, Descriptors: descriptors})
	if err != nil {
		return status.Code(err).String() + ": " + status.Convert(err).Message()
	}
	return lineOf(m)
}

func lineOf(m *rlsv3.RateLimitResponse) string {
	line := m.OverallCode.String()
	for _, s := range m.Statuses {
		line += " [" + s.Code.String()
		if l := s.CurrentLimit; l != nil {
			line += fmt.Sprintf(" %d/%s", l.RequestsPerUnit, l.Unit)
			if l.UnitMultiplier != nil {
				line += fmt.Sprintf("*%d", l.UnitMultiplier.Value)
			}
		}
		if s.CurrentLimit != nil || s.LimitRemaining > 0 {
			line += fmt.Sprintf(" %d left", s.LimitRemaining)
		}
		if s.DurationUntilReset != nil {
			line += " " + s.DurationUntilReset.AsDuration().String()
		}
		line += "]"
	}
	return line
}

// Envoy lets requests pass that end with an error, unless it is configured otherwise, so a client that makes too many
// keys would open it for all new ones.
func TestEnvoyPassesNoKeyWithoutRoom(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		newEnvoyWorldOf(t, w, `
policies:
  few: {max_keys: 1, limits: [{name: ever, quota: 2, lifetime: {}}]}
  many: {limits: [{name: ever, quota: 9, lifetime: {}}]}
envoy:
  edge:
    rules:
      - {match: [{few: "*"}], entries: [{policy: few, key: "{few}"}]}
      - {match: [{many: "*"}], entries: [{policy: many, key: "{many}"}]}
`)
		for i, c := range []struct{ key, want string }{
			{"ann", "OK [OK 2/UNKNOWN 1 left] [OK 9/UNKNOWN 8 left]"},
			{"bob", "OVER_LIMIT [OVER_LIMIT] [OK]"},
			{"ann", "OK [OK 2/UNKNOWN 0 left] [OK 9/UNKNOWN 7 left]"},
			{"ann", "OVER_LIMIT [OVER_LIMIT 2/UNKNOWN 0 left] [OK 9/UNKNOWN 7 left]"},
		} {
			m, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
				&rlsv3.RateLimitRequest{Domain: "edge",
					Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("few", c.key), descriptor("many", "x")}})
			if err != nil || lineOf(m) != c.want {
				t.Errorf("request %d: %v, %v; want %s", i, m, err, c.want)
			}
			headers := map[string]string{}
			for _, h := range m.GetResponseHeadersToAdd() {
				headers[h.Key] = h.Value
			}
			if i == 1 &&
				(headers["Retry-After"] != "1" || !strings.Contains(string(m.GetRawBody()), "could not be checked")) {
				t.Errorf("without room: %v %q", headers, m.GetRawBody())
			}
		}
	})
}

// A policy with count_denied refuses keys on several shards, so as not to disable a guard against guessing in silence.
// As an error, which Envoy lets pass, that would.
func TestEnvoyPassesNoKeysThatCannotBeDecidedTogether(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		newEnvoyWorld(t, w)
		w.decider.instead = deciderFunc(func(_ context.Context, requests []shard.Request) []shard.Result {
			return shard.RefuseAll(len(requests), shard.Invalidf("entries[1].policy",
				"%q has count_denied, and the request's keys live on several shards", requests[0].Entries[1].Policy))
		})
		m, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
			&rlsv3.RateLimitRequest{Domain: "edge",
				Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("per", "second"),
					descriptor("per", "minute", "ip", "x")}})
		if want := "OVER_LIMIT [OK] [OVER_LIMIT]"; err != nil || lineOf(m) != want ||
			!strings.Contains(string(m.GetRawBody()), "could not be checked") {
			t.Errorf("%v, %v; want %s", m, err, want)
		}
	})
}

// The rows of what envoyproxy/ratelimit answers, asked by grpc-go with Envoy's messages through both ports.
func TestWhatEnvoyIsAnswered(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		s := newEnvoyWorld(t, w)
		for i, c := range []struct {
			domain string
			ask    []*ratelimitv3.RateLimitDescriptor
			want   string
		}{
			{"", []*ratelimitv3.RateLimitDescriptor{descriptor("per", "second")},
				"InvalidArgument: domain: is missing"},
			{"edge", nil, "InvalidArgument: descriptors: are missing: a request has at least one"},
			{"nowhere", []*ratelimitv3.RateLimitDescriptor{descriptor("per", "second"),
				limited(descriptor("a", "b"), 1, typev3.RateLimitUnit_DAY, 0)}, "OK [OK] [OK]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("per", "year")}, "OK [OK]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("per", "second", "ip", "x"),
				descriptor("banned", "x", "per", "second")}, "OK [OK] [OK]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("per", "second")}, "OK [OK 50/SECOND 49 left 1s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("free", "x")}, "OK [OK 4294967295 left]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("banned", "x")},
				"OVER_LIMIT [OVER_LIMIT 0/UNKNOWN 0 left]"},
			// The import of share_threshold: all values that match the pattern have one counter.
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("file", "/files/a")}, "OK [OK 2/UNKNOWN 1 left]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("file", "/files/b/c")}, "OK [OK 2/UNKNOWN 0 left]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("file", "/files/")},
				"OVER_LIMIT [OVER_LIMIT 2/UNKNOWN 0 left]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("file", "/other")}, "OK [OK]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("trial", "x")}, "OK [OK 1/DAY 0 left 1h46m0s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("trial", "x")}, "OK [OK 1/DAY 0 left 1h46m0s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("month", "x")},
				"OK [OK 4294967295/MONTH 4294967295 left 385h46m0s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("ten", "x")}, "OK [OK 8/MINUTE*10 7 left 1m15s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("odd", "x")}, "OK [OK 9/UNKNOWN 8 left 2s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("several", "x")}, "OK [OK 3/MINUTE 2 left 1m0s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("known", "x"), descriptor("per", "second")},
				"OVER_LIMIT [OVER_LIMIT] [OK]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{descriptor("child", "a")}, "OK [OK 8/UNKNOWN 7 left]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{costing(descriptor("child", "b"), 8)},
				"OK [OK 8/UNKNOWN 0 left]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{costing(descriptor("child", "c"), 2)},
				"OVER_LIMIT [OVER_LIMIT 10/UNKNOWN 1 left]"},
			// Units that come back also come back to the parent, and usage never falls below zero.
			{"edge", []*ratelimitv3.RateLimitDescriptor{back(costing(descriptor("child", "b"), 80))},
				"OK [OK 8/UNKNOWN 8 left 0s]"},
			{"edge", []*ratelimitv3.RateLimitDescriptor{costing(descriptor("child", "c"), 2)},
				"OK [OK 8/UNKNOWN 6 left]"},
		} {
			if got := shouldRateLimit(t, conn, c.domain, c.ask...); got != c.want {
				t.Errorf("%d %v: got %s, want %s", i, c.ask, got, c.want)
			}
		}
		if s.now > 1_700_000_041e6 {
			t.Error("time has passed")
		}
	})
}

// One over: nothing is counted. A descriptor that is there twice counts twice, or not at all.
func TestDescriptorsAreCountedTogether(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		newEnvoyWorld(t, w)
		for left := 19; left >= 0; left-- {
			if got, want := shouldRateLimit(t, conn, "edge", descriptor("per", "minute", "ip", "x")),
				fmt.Sprintf("OK [OK 20/MINUTE %d left 1m0s]", left); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		ip := descriptor("per", "minute", "ip", "x")
		for range 5 {
			if got := shouldRateLimit(t, conn, "edge", ip); got != "OVER_LIMIT [OVER_LIMIT 20/MINUTE 0 left 1m0s]" {
				t.Errorf("got %s", got)
			}
		}
		if got := shouldRateLimit(t, conn, "edge", descriptor("per", "second"), ip,
			descriptor("per", "nothing")); got !=
			"OVER_LIMIT [OK 50/SECOND 50 left 0s] [OVER_LIMIT 20/MINUTE 0 left 1m0s] [OK]" {
			t.Errorf("one over: %s", got)
		}
		if got := shouldRateLimit(t, conn, "edge", descriptor("per", "second")); got != "OK [OK 50/SECOND 49 left 1s]" {
			t.Errorf("after one over: %s", got)
		}
		if got := shouldRateLimit(t, conn, "edge", ip, descriptor("vip", "yes")); got != "OK [OK] [OK]" {
			t.Errorf("replaced: %s", got)
		}
		twice := costing(descriptor("per", "minute"), 5) // each costs 2
		if got := shouldRateLimit(t, conn, "edge", twice, twice); got != "OK [OK 20/MINUTE 0 left 1m0s] [OK "+
			"20/MINUTE 0 left 1m0s]" {
			t.Errorf("twice: %s", got)
		}
		if got := shouldRateLimit(t, conn, "edge", twice, twice); got !=
			"OVER_LIMIT [OVER_LIMIT 20/MINUTE 0 left 1m0s] [OVER_LIMIT 20/MINUTE 0 left 1m0s]" {
			t.Errorf("twice again: %s", got)
		}
	})
}

// An override is Envoy's limit in place of the rule: with a counter of its own, which its unit tells from another.
func TestOverridesOfEnvoy(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		newEnvoyWorld(t, w)
		hour := func(quota uint32) *ratelimitv3.RateLimitDescriptor {
			return limited(descriptor("per", "minute", "ip", "x"), quota, typev3.RateLimitUnit_HOUR, 0)
		}
		for i, c := range []struct {
			ask  *ratelimitv3.RateLimitDescriptor
			want string
		}{
			{hour(2), "OK [OK 2/HOUR 1 left 46m0s]"},
			{hour(2), "OK [OK 2/HOUR 0 left 46m0s]"},
			{hour(2), "OVER_LIMIT [OVER_LIMIT 2/HOUR 0 left 46m0s]"},
			{hour(3), "OK [OK 3/HOUR 0 left 46m0s]"},
			{descriptor("per", "minute", "ip", "x"), "OK [OK 20/MINUTE 19 left 1m0s]"},
			{limited(descriptor("none", "x"), 9, typev3.RateLimitUnit_SECOND, 30), "OK [OK 9/SECOND*30 8 left 30s]"},
			{back(hour(3)), "OK [OK 3/HOUR 1 left 46m0s]"},
			{limited(descriptor("none", "x"), 0, typev3.RateLimitUnit_DAY, 0), "OVER_LIMIT [OVER_LIMIT 0/DAY 0 left]"},
			{limited(descriptor("none", "x"), 1, typev3.RateLimitUnit_YEAR, 0), "OK [OK 1/YEAR 0 left 817h46m0s]"},
			{limited(descriptor("none", "x"), 1, 0, 0), "InvalidArgument: descriptors[0].limit.unit: is UNKNOWN: " +
				"second, minute, hour, day, month and year are units"},
			{limited(descriptor("none", "x"), 1, typev3.RateLimitUnit_YEAR, 101),
				"InvalidArgument: descriptors[0].limit.unit_multiplier: is 101: " +
					"a limit's period is at least one unit and at most 100 years"},
		} {
			if got := shouldRateLimit(t, conn, "edge", c.ask); got != c.want {
				t.Errorf("%d: got %s, want %s", i, got, c.want)
			}
		}
	})
}

// A look counts nothing. Reports count past the quota; shadows count what they would admit; neither denies.
func TestLooksReportsAndShadowsOfEnvoy(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		s := newEnvoyWorld(t, w)
		look, past := costing(descriptor("look", "u"), 1), descriptor("look_past", "u")
		const freshLook, spent, open = "OK [OK 2/MINUTE 2 left 0s]", "OVER_LIMIT [OVER_LIMIT 2/MINUTE 0 left 1m0s]",
			"OK [OK 2/MINUTE 0 left 1m0s]"
		for i, c := range []struct {
			ask  []*ratelimitv3.RateLimitDescriptor
			want string
		}{
			{[]*ratelimitv3.RateLimitDescriptor{look}, freshLook},
			{[]*ratelimitv3.RateLimitDescriptor{costing(descriptor("report", "u"), 0)}, freshLook},
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("shadowed", "u")}, "OK [OK 2/MINUTE 1 left 1m0s]"},
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("report", "u")}, open},
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("shadowed", "u")}, open},
			{[]*ratelimitv3.RateLimitDescriptor{look}, spent},
			{[]*ratelimitv3.RateLimitDescriptor{past}, open},
			// A look that denies: the take beside it is not counted, the report is.
			{[]*ratelimitv3.RateLimitDescriptor{look, descriptor("per", "second"), descriptor("report", "u")},
				"OVER_LIMIT [OVER_LIMIT 2/MINUTE 0 left 1m0s] [OK 50/SECOND 50 left 0s] [OK 2/MINUTE 0 left 1m0s]"},
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("per", "second")}, "OK [OK 50/SECOND 49 left 1s]"},
			{[]*ratelimitv3.RateLimitDescriptor{past}, spent},
			{[]*ratelimitv3.RateLimitDescriptor{past, descriptor("per", "second"), descriptor("shadowed", "v")},
				spent + " [OK] [OK]"},
			{[]*ratelimitv3.RateLimitDescriptor{descriptor("per", "second"), descriptor("shadowed", "v")},
				"OK [OK 50/SECOND 48 left 1s] [OK 2/MINUTE 1 left 1m0s]"},
		} {
			if got := shouldRateLimit(t, conn, "edge", c.ask...); got != c.want {
				t.Errorf("%d: got %s, want %s", i, got, c.want)
			}
		}
		s.pass(20 * time.Second)
		if got := shouldRateLimit(t, conn, "edge", look); got != "OVER_LIMIT [OVER_LIMIT 2/MINUTE 0 left 40s]" {
			t.Errorf("the duration does not shrink: %s", got)
		}
		s.pass(40 * time.Second)
		if got := shouldRateLimit(t, conn, "edge", look); got != freshLook {
			t.Errorf("after the window: %s", got)
		}
	})
}

// Retry-After is always there on a denial, the policy's styles too, but for those that Envoy writes itself.
func TestHeadersForEnvoy(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		newEnvoyWorld(t, w)
		ask := func(of ...*ratelimitv3.RateLimitDescriptor) (headers string, m *rlsv3.RateLimitResponse) {
			m, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
				&rlsv3.RateLimitRequest{Domain: "edge", Descriptors: of})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range m.ResponseHeadersToAdd {
				headers += h.Key + ": " + h.Value + "\n"
			}
			return headers, m
		}
		minute := descriptor("per", "minute", "ip", "x")
		const style = "RateLimit: \"minute\";r=0;t=60\nRateLimit-Policy: \"minute\";q=20;w=60\n"
		if got, m := ask(costing(minute, 20)); got != style || len(m.RawBody) > 0 ||
			m.Statuses[0].CurrentLimit.Name != "per-ip" {
			t.Errorf("allowed: %s%v", got, m)
		}
		// Envoy shows it to visitors, who need not know our policies
		if _, m := ask(descriptor("several", "x")); m.Statuses[0].CurrentLimit.GetName() != "" {
			t.Errorf("a rule without a name: %v", m)
		}
		if got, m := ask(minute); got != "Content-Type: text/plain; charset=utf-8\n"+style+"Retry-After: 60\n" ||
			string(m.RawBody) != "Slow down\n" {
			t.Errorf("denied: %s%v", got, m)
		}
		ask(costing(descriptor("report", "u"), 2)) // at its quota, which denies no look past it
		if got, m := ask(descriptor("look_past", "u"), descriptor("banned", "x")); got != "" || len(m.RawBody) > 0 ||
			m.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT {
			t.Errorf("a ban beside a look that passes: %s%v", got, m)
		}
	})
}

// Envoy has gone by the time that its request is decided: the error counts it, because Envoy has let the request pass.
func TestEnvoyDoesNotWait(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		s := newEnvoyWorld(t, w)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		w.decider.instead = deciderFunc(func(ctx context.Context, requests []shard.Request) []shard.Result {
			leave()
			<-ctx.Done()
			return s.Decide(ctx, requests)
		})
		_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: "edge",
			Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("per", "second")}})
		if code := status.Code(err); code != codes.Canceled {
			t.Fatalf("got %v", err)
		}
		await.Until(t, "the call is counted as one that may have been applied", func() bool {
			return slices.Contains(w.observer.seen(), "request ShouldRateLimit aborted")
		})
		w.decider.instead = s
		if got := shouldRateLimit(t, conn, "edge", descriptor("per", "second")); !strings.Contains(got, " 48 left") {
			t.Errorf("it was counted, but %s", got)
		}
	})
}

// A rule names a policy that the shard has not adopted yet: nothing was counted, and it is asked again.
func TestEnvoyRulesAreNewerThanAShard(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		s := newEnvoyWorld(t, w)
		asked := 0
		w.decider.instead = deciderFunc(func(ctx context.Context, requests []shard.Request) []shard.Result {
			if asked++; asked == 1 {
				return shard.RefuseAll(len(requests),
					&shard.Error{Code: shard.PolicyNotFound, Message: "no such policy"})
			}
			return s.Decide(ctx, requests)
		})
		if got := shouldRateLimit(t, conn, "edge",
			descriptor("per", "second")); got != "OK [OK 50/SECOND 49 left 1s]" || asked != 2 {
			t.Errorf("asked %d times: %s", asked, got)
		}
	})
}

type deciderFunc func(context.Context, []shard.Request) []shard.Result

func (f deciderFunc) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	return f(ctx, requests)
}

// A token comes with gRPC's initial metadata, and its grants are asked for each policy and key.
func TestEnvoyNeedsAToken(t *testing.T) {
	k := newTokens()
	may := k.add(t, "envoy", "ns=shop policy=minute ops=check")
	gives := k.add(t, "giver", "ns=shop policy=minute ops=check,adjust,inline")
	own := k.add(t, "own", "ns=shop policy=envoy-override ops=check")
	brings := k.add(t, "brings", "ns=shop policy=envoy-override ops=check,inline")
	w := newGuardedWorld(t, k.guard)
	newEnvoyWorld(t, w)
	minute, second := descriptor("per", "minute", "ip", "x"), descriptor("per", "second")
	override := limited(descriptor("per", "minute"), 2, typev3.RateLimitUnit_DAY, 0)
	for _, addr := range []string{w.grpcAddr, strings.TrimPrefix(w.url, "http://")} {
		conn := w.dial(addr)
		for _, c := range []struct {
			token string
			ask   []*ratelimitv3.RateLimitDescriptor
			want  codes.Code
		}{
			{"stint_nobody", []*ratelimitv3.RateLimitDescriptor{minute}, codes.Unauthenticated},
			{may, []*ratelimitv3.RateLimitDescriptor{minute}, codes.OK},
			{may, []*ratelimitv3.RateLimitDescriptor{minute, second}, codes.PermissionDenied},
			{may, []*ratelimitv3.RateLimitDescriptor{back(descriptor("per", "minute", "ip", "x"))},
				codes.PermissionDenied},
			{gives, []*ratelimitv3.RateLimitDescriptor{back(descriptor("per", "minute", "ip", "x"))}, codes.OK},
			{gives, []*ratelimitv3.RateLimitDescriptor{override}, codes.PermissionDenied}, // of no policy
			{own, []*ratelimitv3.RateLimitDescriptor{override}, codes.PermissionDenied},
			{brings, []*ratelimitv3.RateLimitDescriptor{override}, codes.OK},
			{may, []*ratelimitv3.RateLimitDescriptor{descriptor("no", "rule")}, codes.OK},
		} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.token)
			_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx,
				&rlsv3.RateLimitRequest{Domain: "edge", Descriptors: c.ask})
			if status.Code(err) != c.want {
				t.Errorf("%v with %.9s: %v, want %v", c.ask, c.token, err, c.want)
			}
		}
	}
}

func TestHealthByTheNameOfRatelimit(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		for _, service := range []string{"ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
			m, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			if err != nil || m.Status != healthpb.HealthCheckResponse_SERVING {
				t.Errorf("%s: %v %v", service, m, err)
			}
		}
	})
}
