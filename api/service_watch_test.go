package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// fakeWatcher is a Watcher that puts an event of another node into each reader.
type fakeWatcher struct {
	missing []string
	event   *decisions.Record // nil: none
}

func (f *fakeWatcher) Join(
	ctx context.Context, filter *decisions.Filter, into *decisions.Reader, missing func([]string),
) {
	missing(f.missing)
	if f.event != nil && filter.Wants(f.event) {
		into.Push(f.event)
	}
	<-ctx.Done()
}

// listener reads what the bus of a world tells, as "protocol outcome policy/key".
type listener struct {
	t *testing.T
	r *decisions.Reader
}

func (w *world) listen(namespace string) *listener {
	w.t.Helper()
	r := w.bus.Open(&decisions.Filter{Namespace: namespace})
	w.t.Cleanup(r.Close)
	return &listener{w.t, r}
}

// next waits for n events and no more. An event follows its answer, so it may come a moment later.
func (l *listener) next(what string, n int) (all []*decisions.Record) {
	l.t.Helper()
	await.Until(l.t, fmt.Sprint(what, ": ", n, " events"), func() bool {
		some, missed := l.r.Take()
		if missed > 0 {
			l.t.Fatal("events were missed")
		}
		all = append(all, some...)
		return len(all) >= n
	})
	if len(all) != n {
		l.t.Errorf("%s: %d events, want %d", what, len(all), n)
	}
	return all
}

func lines(events []*decisions.Record) (all []string) {
	for _, e := range events {
		all = append(all, fmt.Sprintf("%s %s %s/%s", e.Protocol, e.Outcome, e.Policy, e.Key))
	}
	slices.Sort(all)
	return all
}

func wantLines(t *testing.T, what string, events []*decisions.Record, want ...string) {
	t.Helper()
	if got := lines(events); !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// Whatever way a request comes in, its decision is one event, and what is no decision is none. (The Redis port and
// forwarded requests: TestEveryWayThroughAClusterIsOneEvent in node.)
func TestEveryWayInIsOneEvent(t *testing.T) {
	w := newWorld(t)
	l := w.listen("default")
	w.post("LimitService/Check", perIP)
	wantLines(t, "JSON", l.next("JSON", 1), "json allowed per-ip/203.0.113.7")
	for name, options := range map[string][]connect.ClientOption{"connect": nil, "json": {connect.WithProtoJSON()},
		"grpc-web": {connect.WithGRPCWeb()}} {
		client := stintv1connect.NewLimitServiceClient(http.DefaultClient, w.url, options...)
		if _, err := client.Check(t.Context(), connect.NewRequest(aCheck())); err != nil {
			t.Fatal(err)
		}
		wantLines(t, name, l.next(name, 1), name+" allowed per-ip/203.0.113.7")
		if _, err := client.Reserve(t.Context(),
			connect.NewRequest(&stintv1.ReserveRequest{Check: aCheck(), Ttl: durationpb.New(time.Second)})); err !=
			nil {
			t.Fatal(err)
		}
		if e := l.next(name, 1)[0]; e.Outcome != "reserved" || e.DecisionID != "" {
			t.Errorf("%s: a hold is told as %+v", name, e)
		}
	}
	for i, addr := range []string{strings.TrimPrefix(w.url, "http://"), w.grpcAddr} {
		conn, name := w.dial(addr), []string{"gRPC", "grpc-go"}[i]
		if err := invokeCheck(t.Context(), conn, aCheck()); err != nil {
			t.Fatal(err)
		}
		wantLines(t, name, l.next(name, 1), "grpc allowed per-ip/203.0.113.7")
		batch := batchWith(1, "a", "b", "c")
		batch.Checks = append(batch.Checks, &stintv1.CheckRequest{}) // an error is no decision
		if err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckBatchProcedure, batch,
			&stintv1.CheckBatchResponse{}); err != nil {
			t.Fatal(err)
		}
		wantLines(t, name+" batch", l.next(name+" batch", 3), "grpc allowed per-ip/a", "grpc allowed per-ip/b",
			"grpc allowed per-ip/c")
		stream := openStream(t, conn)
		for n := range 2 {
			send(t, stream, batchWith(n+1, "s"))
			if _, err := answered(stream); err != nil {
				t.Fatal(err)
			}
			// with its answer, and not with the stream's end
			wantLines(t, name+" stream", l.next(name+" stream", 1), "grpc allowed per-ip/s")
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	decide := w.decider.decide
	w.decider.decide = func(r shard.Request) shard.Result {
		result := deny(r)
		result.Decision.Age = 5
		return result
	}
	w.post("LimitService/Check", perIP)
	if e := l.next("a repeated denial", 1)[0]; e.Outcome != "denied_cached" || !e.Cached || e.Allowed ||
		e.Kind != decisions.Denied {
		t.Errorf("a repeated denial is told as %+v", e)
	}
	w.decider.decide = decide
	_, _, text := w.post("LimitService/Check", perIP)
	e := l.next("a decision to refund", 1)[0]
	w.post("LimitService/Settle", `{"decisionId":"`+e.DecisionID+`","cancel":{}}`)
	if e.DecisionID == "" || !strings.Contains(text, e.DecisionID) {
		t.Errorf("the id of the decision is told as %q: %s", e.DecisionID, text)
	}
	if e := l.next("a refund", 1)[0]; e.Outcome != "cancelled" || e.Kind != decisions.Settled {
		t.Errorf("a refund is told as %+v", e)
	}
	w.post("LimitService/Get", `{"entries":[{"policy":"per-ip","key":"k"}]}`)
	w.post("LimitService/Check", `{"entries":[{"policy":"per-ip","key":"k"}],"mode":"MODE_PEEK"}`)
	w.post("LimitService/Check", perIP)
	wantLines(t, "after looks", l.next("after looks", 1), "json allowed per-ip/203.0.113.7")
}

func TestGatesAndEnvoyAreOneEventEach(t *testing.T) {
	gates := newGateWorld(t, nil)
	l := gates.listen("shop")
	if status, _, text := gates.ask("/gate/web", "X-Forwarded-Method: GET", "X-Forwarded-Host: example.com",
		"X-Forwarded-Uri: /any", "X-Forwarded-For: 198.51.100.7"); status != 200 {
		t.Fatal(status, text)
	}
	wantLines(t, "a gate", l.next("a gate", 1), "gate allowed per-ip/ip:198.51.100.7")

	w := newWorld(t)
	newEnvoyWorld(t, w)
	l = w.listen("shop")
	ask := func(descriptors ...*ratelimitv3.RateLimitDescriptor) {
		t.Helper()
		_, err := rlsv3.NewRateLimitServiceClient(w.dial(w.grpcAddr)).ShouldRateLimit(t.Context(),
			&rlsv3.RateLimitRequest{Domain: "edge", Descriptors: descriptors})
		if err != nil {
			t.Fatal(err)
		}
	}
	ask(descriptor("several", "x"))
	e := l.next("Envoy", 1)
	if e[0].Protocol != "envoy" || e[0].Policy != "several" || e[0].Outcome != "allowed" || *e[0].Remaining != 2 {
		t.Errorf("Envoy: %+v", e[0])
	}
	ask(descriptor("known", "nobody"))
	if e := l.next("a key that its policy refuses", 1)[0]; e.Policy != "known" || e.Key != "nobody" || e.Allowed ||
		e.Outcome != "denied" || e.At.IsZero() {
		t.Errorf("a key that its policy refuses is told as %+v", e)
	}
	w = newWorld(t)
	newEnvoyWorldOf(t, w, envoyFile+"namespaces: {shop: {keys: hashed}}\n")
	w.keys, l = hashShop, w.listen("shop")
	ask(descriptor("known", "nobody"))
	if e := l.next("a key that is to be hashed", 1)[0]; e.Policy != "known" || e.Key == "nobody" || e.Key == "" ||
		e.Outcome != "denied" {
		t.Errorf("a key that is to be hashed is told as %+v", e)
	}
}

// An event has all of its decision. Of several keys its main one is the one that a limit denied.
func TestAnEventHasAllOfItsDecision(t *testing.T) {
	w := newWorld(t)
	l := w.listen("default")
	w.decider.decide = func(r shard.Request) shard.Result {
		d := shard.Decision{DecidedAt: noon, RetryAfter: 2_000_001,
			Position: shard.Position{Shard: 3, Epoch: 17, Seq: 99}, Limits: []shard.LimitStatus{
				{Policy: "per-ip", Limit: "minute", Key: "ip", Quota: 100,
					Verdict: limit.Verdict{Allowed: true, Remaining: 7}},
				{Policy: "api", Limit: "burst", Key: "user", Quota: 5, Verdict: limit.Verdict{Remaining: 1}},
				{Policy: "api", Limit: "daily", Key: "user", Quota: 5, Shadow: true, Verdict: limit.Verdict{}},
				{Policy: "api", Limit: "free", Key: "user", Unlimited: true, Verdict: limit.Verdict{}}}}
		return shard.Result{Decision: d}
	}
	w.post("LimitService/Check", `{"entries":[{"policy":"per-ip","key":"ip"},{"policy":"api","key":"user",`+
		`"tier":"researcher","cost":"4"}]}`)
	e := l.next("a denial", 1)[0]
	if e.DurationMicros < 0 {
		t.Error("it took", e.DurationMicros)
	}
	e.DurationMicros = 6
	got, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"at":"2026-11-21T12:00:00.25Z","kind":"denied","outcome":"denied","namespace":"default",` +
		`"policy":"api","tier":"researcher","key":"user",` +
		`"cost":4,"others":[{"policy":"per-ip","key":"ip","cost":1}],"allowed":false,"denied_by":["api/burst"],` +
		`"reason":"Too many calls. See example.org/limits.","remaining":1,"retry_after_us":2000001,"shard":3,` +
		`"epoch":17,"seq":99,"node":"n1",` +
		`"protocol":"json","duration_us":6,"weight":1}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The keys of a namespace that hashes them are shown as hashes, and can be watched by a caller that knows one.
func TestHashedKeysAreToldAsHashes(t *testing.T) {
	w := newHashingWorld(t)
	l := w.listen("shop")
	stream := w.watch(t, "", &stintv1.WatchRequest{Namespace: "shop", Key: plainKey})
	check := `{"namespace":"shop","entries":[{"policy":"per-ip","key":"` + plainKey + `"}]}`
	w.post("LimitService/Check", check)
	e := l.next("a hashed key", 1)[0]
	if hash := hashOf(t, "shop", plainKey); e.Key != hash {
		t.Errorf("told as %q, want %q", e.Key, hash)
	}
	if m := stream.next(); m.Key != plainKey || m.Hashed {
		t.Errorf("who asks for the key sees %v", m)
	}
	w.post("LimitService/Settle", `{"decisionId":"`+e.DecisionID+`","cancel":{}}`)
	if m := stream.next(); m.Key != plainKey || m.Decision.Outcome != "cancelled" {
		t.Errorf("its refund is seen as %v", m)
	}
	client := stintv1connect.NewObserveServiceClient(http.DefaultClient, w.url)
	refused, err := client.Watch(t.Context(),
		connect.NewRequest(&stintv1.WatchRequest{Namespace: "shop", KeyPrefix: "ann"}))
	if err != nil {
		t.Fatal(err)
	}
	if refused.Receive() || connect.CodeOf(refused.Err()) != connect.CodeInvalidArgument {
		t.Error("a prefix of hashes:", refused.Err())
	}
}

// watched is a stream of a client.
type watched struct {
	t      *testing.T
	stream *connect.ServerStreamForClient[stintv1.Event]
	begun  *stintv1.Event
}

// watch opens a stream and waits until it has begun.
func (w *world) watch(t *testing.T, token string, m *stintv1.WatchRequest, options ...connect.ClientOption) *watched {
	t.Helper()
	client := connect.HTTPClient(http.DefaultClient)
	if token != "" {
		client = withToken(token)
	}
	stream, err := stintv1connect.NewObserveServiceClient(client, w.url, options...).
		Watch(t.Context(), connect.NewRequest(m))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	if !stream.Receive() || stream.Msg().Kind != stintv1.EventKind_EVENT_KIND_STREAM {
		t.Fatal("a stream begins with", stream.Msg(), stream.Err())
	}
	return &watched{t, stream, stream.Msg()}
}

func (s *watched) next() *stintv1.Event {
	s.t.Helper()
	for s.stream.Receive() {
		if m := s.stream.Msg(); m.Kind != stintv1.EventKind_EVENT_KIND_STREAM {
			return m
		}
	}
	s.t.Fatal("the stream has ended:", s.stream.Err())
	return nil
}

// A stream has the decisions of this node and of the others, filtered, in every protocol.
func TestWatchSendsDecisions(t *testing.T) {
	w := newWorld(t)
	w.watcher.missing = []string{"n3"}
	w.watcher.event = &decisions.Record{At: time.UnixMicro(5), Kind: decisions.Denied, Outcome: "locked_out",
		Namespace: "default",
		Entry:     decisions.Entry{Policy: "api", Key: "far", Cost: 2}, Node: "n2", RetryAfterUS: 7,
		DeniedBy: []string{"api/lockout"}, Weight: 1}
	for name, options := range map[string][]connect.ClientOption{"connect": nil, "JSON": {connect.WithProtoJSON()},
		"gRPC-Web": {connect.WithGRPCWeb()}} {
		all := w.watch(t, "", &stintv1.WatchRequest{}, options...)
		denied := w.watch(t, "", &stintv1.WatchRequest{Kinds: []stintv1.EventKind{stintv1.EventKind_EVENT_KIND_DENIED},
			Policies: []string{"per-ip"}}, options...)
		if !slices.Equal(all.begun.MissingNodes, []string{"n3"}) {
			t.Errorf("%s: it begins with %v", name, all.begun)
		}
		if m := all.next(); m.Key != "far" || m.Decision.Node != "n2" ||
			m.Decision.RetryAfter.AsDuration() != 7*time.Microsecond || m.Decision.DeniedBy[0] != "api/lockout" {
			t.Errorf("%s: of another node: %v", name, m)
		}
		w.post("LimitService/Check", perIP)
		if m := all.next(); m.Kind != stintv1.EventKind_EVENT_KIND_ALLOWED || m.Key != "203.0.113.7" ||
			!m.Decision.Allowed || *m.Decision.Remaining != 99 ||
			m.Decision.Position.Seq != 99 || m.Decision.DecisionId == "" || m.Decision.Protocol != "json" ||
			m.Decision.Weight != 1 || m.At.AsTime().UnixMicro() != int64(noon) {
			t.Errorf("%s: %v", name, m)
		}
		w.decider.decide = deny
		w.post("LimitService/Check", perIP)
		if m := denied.next(); m.Kind != stintv1.EventKind_EVENT_KIND_DENIED || m.Decision.Outcome != "denied" {
			t.Errorf("%s: a denial: %v", name, m)
		}
		w.decider.decide = allow
	}
	var stream grpc.ClientStream
	stream, err := w.dial(w.grpcAddr).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true},
		stintv1connect.ObserveServiceWatchProcedure)
	if err == nil {
		err = stream.SendMsg(&stintv1.WatchRequest{Key: "far"})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	var begun, m stintv1.Event
	if err == nil {
		err = stream.RecvMsg(&begun)
	}
	if err == nil {
		err = stream.RecvMsg(&m)
	}
	if err != nil || m.Key != "far" || begun.Kind != stintv1.EventKind_EVENT_KIND_STREAM {
		t.Errorf("grpc-go: %v %v", &m, err)
	}
}

func TestWatchRefusesWhatItCannotDo(t *testing.T) {
	throughBothDoors(t, func(t *testing.T, w *world, conn *grpc.ClientConn) {
		for name, c := range map[string]struct {
			m    *stintv1.WatchRequest
			code codes.Code
			text string
		}{
			"key": {&stintv1.WatchRequest{Key: "a\x00"}, codes.InvalidArgument, "key: "},
			"prefix": {&stintv1.WatchRequest{KeyPrefix: strings.Repeat("k", 600)}, codes.InvalidArgument,
				"key_prefix: "},
			"policies": {&stintv1.WatchRequest{Policies: slices.Repeat([]string{"p"}, 17)}, codes.InvalidArgument,
				"policies: are 17"},
			"policy": {&stintv1.WatchRequest{Policies: []string{"P!"}}, codes.InvalidArgument, "policies: has one"},
			"none":   {&stintv1.WatchRequest{Kinds: []stintv1.EventKind{0}}, codes.InvalidArgument, "kinds: has 0"},
			"stream": {&stintv1.WatchRequest{Kinds: []stintv1.EventKind{stintv1.EventKind_EVENT_KIND_STREAM}},
				codes.InvalidArgument, "kinds: "},
			"newer": {&stintv1.WatchRequest{Kinds: []stintv1.EventKind{77}}, codes.InvalidArgument, "kinds: has 77"},
		} {
			stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true},
				stintv1connect.ObserveServiceWatchProcedure)
			if err != nil {
				t.Fatal(err)
			}
			send := stream.SendMsg(c.m)
			if send == nil {
				send = stream.CloseSend()
			}
			err = stream.RecvMsg(&stintv1.Event{})
			if s := status.Convert(err); s.Code() != c.code || !strings.Contains(s.Message(), c.text) {
				t.Errorf("%s: %v %v", name, send, err)
			}
		}
	})
}

// A caller that may observe sees hashes, one that may see keys sees those of the grant, and no other caller sees
// anything.
func TestWatchShowsKeysToThoseWhoMaySeeThem(t *testing.T) {
	k := newTokens()
	root := k.add(t, "root", "ops=admin")
	w := newGuardedWorld(t, k.guard)
	for name, c := range map[string]struct {
		grants []string
		m      *stintv1.WatchRequest
		want   string // the keys that are seen, with those of other entries; or the code of the error
	}{
		"admin":    {[]string{"ops=admin"}, &stintv1.WatchRequest{}, "per-ip/user:1+api/org:1 per-ip/user:2"},
		"observer": {[]string{"ops=observe"}, &stintv1.WatchRequest{}, "per-ip/#hidden+api/#hidden per-ip/#hidden"},
		"both": {[]string{"ops=observe", "policy=per-ip key=user:2 ops=observe-keys"}, &stintv1.WatchRequest{},
			"per-ip/#hidden+api/#hidden per-ip/user:2"},
		"keys":  {[]string{"key=user:* ops=observe-keys"}, &stintv1.WatchRequest{}, "per-ip/user:1 per-ip/user:2"},
		"other": {[]string{"policy=api ops=observe-keys"}, &stintv1.WatchRequest{}, "/+api/org:1"},
		"by key": {[]string{"ops=observe", "key=user:2 ops=observe-keys"}, &stintv1.WatchRequest{KeyPrefix: "user:"},
			"per-ip/user:2"},
		"hidden":  {[]string{"ops=observe"}, &stintv1.WatchRequest{Key: "user:1"}, "permission_denied"},
		"foreign": {[]string{"ns=shop ops=observe-keys"}, &stintv1.WatchRequest{}, "permission_denied"},
		"neither": {[]string{"ops=check,read,cluster"}, &stintv1.WatchRequest{}, "permission_denied"},
	} {
		token := k.add(t, strings.ReplaceAll(name, " ", "-"), c.grants...)
		stream, err := stintv1connect.NewObserveServiceClient(withToken(token), w.url).
			Watch(t.Context(), connect.NewRequest(c.m))
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() {
			if got := connect.CodeOf(stream.Err()).String(); got != c.want {
				t.Errorf("%s: %v, want %s", name, stream.Err(), c.want)
			}
			continue
		}
		last := "user:2"
		for _, entries := range [][]*stintv1.Entry{{{Policy: "per-ip", Key: "user:1"}, {Policy: "api", Key: "org:1"}},
			{{Policy: "per-ip", Key: last}}} {
			check := connect.NewRequest(&stintv1.CheckRequest{Entries: entries})
			if _, err := stintv1connect.NewLimitServiceClient(withToken(root), w.url).
				Check(t.Context(), check); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for len(got) < len(strings.Fields(c.want)) && stream.Receive() {
			got = append(got, seen(t, stream.Msg()))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %q, want %q (%v)", name, text, c.want, stream.Err())
		}
		stream.Close()
	}
}

// Events of keys show the key to callers that may see it, its hash to those that may observe, and no change by hand to
// the latter, since its texts may name the key.
func TestWhatHappensToKeysIsToldToThoseWhoMaySeeIt(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	w := newGuardedWorld(t, k.guard)
	at := limit.Time(time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC).UnixMicro())
	for name, c := range map[string]struct {
		grant string
		kinds []stintv1.EventKind
		want  string
	}{
		"admin": {"ops=admin", nil, "per-ip/user:1 80%=8000 of minute until 2026-11-24, per-ip/user:1 level 2 " +
			"until 2026-11-24, per-ip/user:1 block by jo: why; per-ip/user:2 level 3 until 2026-11-24"},
		"observer": {"ops=observe", nil, "per-ip/#hidden 80%=8000 of minute until 2026-11-24, " +
			"per-ip/#hidden level 2 until 2026-11-24, per-ip/#hidden level 3 until 2026-11-24"},
		"keys": {"key=user:1 ops=observe-keys",
			[]stintv1.EventKind{stintv1.EventKind_EVENT_KIND_AUDIT, stintv1.EventKind_EVENT_KIND_LOCKOUT},
			"per-ip/user:1 level 2 until 2026-11-24, per-ip/user:1 block by jo: why"},
	} {
		want := strings.FieldsFunc(c.want, func(r rune) bool { return r == ',' || r == ';' })
		stream, err := stintv1connect.NewObserveServiceClient(withToken(k.add(t, name, c.grant)),
			w.url).Watch(t.Context(), connect.NewRequest(&stintv1.WatchRequest{Kinds: c.kinds}))
		if err != nil || !stream.Receive() {
			t.Fatal(err, stream.Err())
		}
		happened := []shard.Happening{
			{Fired: &shard.FiredThreshold{Limit: "minute", Units: 8000, Percent: 80, Ends: at}},
			{Lockout: &shard.BegunLockout{Level: 2, Until: at}},
			{Change: &shard.AuditRecord{Actor: "jo", Deed: "block", Note: "why"}},
			{Lockout: &shard.BegunLockout{Level: 3, Until: at}, Key: "user:2"},
		}
		for i := range happened {
			h := &happened[i]
			h.At, h.Namespace, h.Policy, h.Key = at, "default", "per-ip", cmp.Or(h.Key, "user:1")
		}
		w.bus.Changed(happened)
		for _, want := range want {
			if !stream.Receive() {
				t.Fatal(name, stream.Err())
			}
			m, key, got := stream.Msg(), stream.Msg().Key, ""
			if m.Hashed {
				key = "#" + key
			}
			switch {
			case m.Kind == stintv1.EventKind_EVENT_KIND_THRESHOLD && m.Threshold != nil && m.Threshold.Key == "":
				got = fmt.Sprintf("%d%%=%d of %s until %s", m.Threshold.Percent, m.Threshold.Units, m.Threshold.Limit,
					m.Threshold.WindowEnd.AsTime().Format(time.DateOnly))
			case m.Kind == stintv1.EventKind_EVENT_KIND_LOCKOUT && m.Lockout != nil:
				got = fmt.Sprintf("level %d until %s", m.Lockout.Level,
					m.Lockout.BlockedUntil.AsTime().Format(time.DateOnly))
			case m.Kind == stintv1.EventKind_EVENT_KIND_AUDIT && m.Change != nil:
				got = fmt.Sprintf("%s by %s: %s", m.Change.Deed, m.Change.Actor, m.Change.Note)
			}
			if got = m.Policy + "/" + key + " " + got; got != strings.TrimSpace(want) || m.Decision != nil {
				t.Errorf("%s: got %q, want %q (%v)", name, got, want, m)
			}
		}
		stream.Close()
	}
}

// seen writes the keys of an event. A caller that does not see all of them gets no id.
func seen(t *testing.T, m *stintv1.Event) string {
	t.Helper()
	marked := func(policy, key string, hashed bool) string {
		if hashed {
			key = "#" + key
		}
		return policy + "/" + key
	}
	text := marked(m.Policy, m.Key, m.Hashed)
	for _, o := range m.Decision.Others {
		text += "+" + marked(o.Policy, o.Key, o.Hashed)
	}
	if hides := m.Hashed || m.Key == "" || strings.Contains(text, "#"); hides && m.Decision.DecisionId != "" {
		t.Errorf("%s: who does not see the key gets the id", text)
	}
	if m.Decision.Token != "token:root" {
		t.Errorf("%s: asked by %q", text, m.Decision.Token)
	}
	return text
}

// A stream ends with its client, with its token and with the node, and leaves no listener behind.
func TestAStreamEnds(t *testing.T) {
	k := newTokens()
	w := newGuardedWorld(t, k.guard)
	token := k.add(t, "eve", "ops=observe")
	revoked := w.watch(t, token, &stintv1.WatchRequest{})
	left := w.watch(t, k.add(t, "bob", "ops=observe"), &stintv1.WatchRequest{})
	narrowed := w.watch(t, k.add(t, "amy", "ops=observe"), &stintv1.WatchRequest{})
	drained := w.watch(t, k.add(t, "dan", "ops=observe"), &stintv1.WatchRequest{})
	k.revoke("eve")
	if revoked.stream.Receive() || connect.CodeOf(revoked.stream.Err()) != connect.CodeUnauthenticated {
		t.Error("a revoked token:", revoked.stream.Msg(), revoked.stream.Err())
	}
	for i := range k.records {
		if k.records[i].Name == "amy" {
			k.records[i].Grants = []auth.Grant{{Ops: []string{"check"}}}
		}
	}
	k.learn()
	if narrowed.stream.Receive() || connect.CodeOf(narrowed.stream.Err()) != connect.CodePermissionDenied {
		t.Error("a token that lost its grant:", narrowed.stream.Msg(), narrowed.stream.Err())
	}
	left.stream.Close()
	w.api.Drain()
	if drained.stream.Receive() || connect.CodeOf(drained.stream.Err()) != connect.CodeUnavailable {
		t.Error("a node that stops:", drained.stream.Msg(), drained.stream.Err())
	}
	await.Until(t, "nobody listens", func() bool { return !w.bus.Listening() })
}

// A client that does not read loses the oldest events, and gets their number. It delays no other client.
func TestASlowClientIsToldWhatItMissed(t *testing.T) {
	w := newWorld(t)
	waiting := make(chan struct{})
	var sent []*stintv1.Event
	g := w.api.registry.gate
	s := watchService{Config: &Config{Bus: w.bus, Keys: plainKeys, Guard: g.guard}, gate: g,
		draining: context.Background()}
	ctx, cancel := context.WithCancel((&exchange{}).within(t.Context()))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- s.serve(ctx, &stintv1.WatchRequest{}, func(m *stintv1.Event) error {
			if sent = append(sent, m); len(sent) == 1 {
				waiting <- struct{}{}
				<-waiting
			}
			if len(sent) == decisions.Ring+1 {
				cancel()
			}
			return nil
		})
	}()
	<-waiting
	const all = decisions.Ring + 100
	for i := range all {
		w.bus.Put(&decisions.Record{Kind: decisions.Allowed, Namespace: "default",
			Entry: decisions.Entry{Policy: "p", Key: fmt.Sprint(i)}}, 0)
	}
	waiting <- struct{}{}
	if err := <-ended; err == nil {
		t.Error("the client left, and its stream ended without an error")
	}
	if first := sent[1]; first.Missed != 100 || first.Key != "100" || sent[len(sent)-1].Key != fmt.Sprint(all-1) {
		t.Errorf("%d events, the first is %v", len(sent), first)
	}
}

func TestOneTokenLeavesStreamsToOthers(t *testing.T) {
	const share = watchesMost / 4
	streams := connlimit.NewBound[string](watchesMost)
	for range share {
		if why := streams.Enter("token:web"); why != connlimit.Room {
			t.Fatal("one token has less than its share:", why)
		}
	}
	if streams.Enter("token:web") == connlimit.Room {
		t.Error("one token has more than its share")
	}
	for range watchesMost - share {
		if why := streams.Enter(""); why != connlimit.Room {
			t.Fatal("others have less than the rest:", why)
		}
	}
	if streams.Enter("local") == connlimit.Room {
		t.Error("there are more than all")
	}
	streams.Leave("token:web")
	if why := streams.Enter("token:web"); why != connlimit.Room || streams.Open() != watchesMost {
		t.Errorf("one has ended, and another cannot begin: %v", why)
	}
}

func TestTheNumberOfStreamsIsBounded(t *testing.T) {
	w := newWorld(t)
	for range watchesMost {
		w.watch(t, "", &stintv1.WatchRequest{})
	}
	stream, err := stintv1connect.NewObserveServiceClient(http.DefaultClient, w.url).Watch(t.Context(),
		connect.NewRequest(&stintv1.WatchRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Error("one stream too many:", stream.Msg(), stream.Err())
	}
}

// Without listeners, a decision costs the answer nothing: the allocations of TestAllocationsOfACall are with a bus too.
func TestWithoutListenersACallAllocatesNothingMore(t *testing.T) {
	plain, told := tellingCall(nil), tellingCall(decisions.NewBus("n1", nil))
	if more, times, than := allocatesMore(func() { told() }, func() { plain() }); more {
		t.Errorf("a call allocates %v times, and %v times when it could be told", than, times)
	}
}

// tellingCall makes a call through the fast path, without a network and with a Decider that does nothing.
func tellingCall(bus *decisions.Bus) func() int {
	set := testPolicies()
	a := newAPI(Config{Decider: quickDecider{}, Revision: func() *policy.Revision {
		return &policy.Revision{Version: 1, Set: set}
	},
		Sealer: func() *shard.Sealer { return testSealer }, Ready: func() error { return nil },
		Metrics: http.NotFoundHandler(), Listeners: decisions.Listeners{bus}})
	return func() int {
		r := httptest.NewRequest("POST", "/stint.v1.LimitService/Check", strings.NewReader(perIP))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w.Code
	}
}

type discarding struct{}

func (discarding) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkTold measures a whole call without listeners, with the log, and with a reader of all decisions and one of
// denials.
func BenchmarkTold(b *testing.B) {
	log := func(every uint64) *decisions.Bus {
		l := decisions.NewLog(decisions.LogConfig{Out: decisions.To(discarding{}), AllowedEvery: every,
			Hide: func(string, string) (string, bool) { return "hash", true }, Logger: slog.New(slog.DiscardHandler)})
		b.Cleanup(func() { l.Close(time.Second) })
		return decisions.NewBus("n1", l)
	}
	watch := func(kinds ...decisions.Kind) *decisions.Bus {
		bus := decisions.NewBus("n1", nil)
		b.Cleanup(bus.Open(&decisions.Filter{Namespace: "default", Kinds: kinds}).Close)
		return bus
	}
	for _, c := range []struct {
		name string
		bus  *decisions.Bus
	}{{"off", decisions.NewBus("n1", nil)}, {"log-1-in-100", log(100)}, {"log-all", log(1)},
		{"watch-denials", watch(decisions.Denied)}, {"watch-all", watch()}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			call := tellingCall(c.bus)
			for b.Loop() {
				if code := call(); code != 200 {
					b.Fatal(code)
				}
			}
		})
	}
}

// However many decisions there are, a stream sends a thousand a second, and tells how many it has missed.
func TestAStreamTakesNoMoreThanItsShareOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := decisions.NewBus("n1", nil)
		c := completed(Config{Bus: bus})
		s := watchService{Config: &c, gate: newGatekeeper(&c, reporter{}), draining: context.Background()}
		ctx, cancel := context.WithCancel((&exchange{}).within(t.Context()))
		began, sent, missed := time.Now(), 0, uint64(0)
		ended := make(chan error, 1)
		go func() {
			ended <- s.serve(ctx, &stintv1.WatchRequest{}, func(m *stintv1.Event) error {
				if missed += m.Missed; m.Kind != stintv1.EventKind_EVENT_KIND_STREAM {
					sent++
				}
				return nil
			})
		}()
		synctest.Wait()
		const each, seconds = 10, 20
		for range seconds * 1000 {
			for range each {
				bus.Put(&decisions.Record{Kind: decisions.Denied, Namespace: "default",
					Entry: decisions.Entry{Policy: "p", Key: "k"}}, 0)
			}
			time.Sleep(time.Millisecond)
		}
		took := time.Since(began).Seconds()
		time.Sleep(2 * time.Second) // what is in the ring
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if most := int((took+1)*watchRate) + decisions.Ring; sent > most || sent < int(took)*watchRate/2 {
			t.Errorf("%d events were sent in %v s, at most %d", sent, took, most)
		}
		if all := uint64(each * seconds * 1000); uint64(sent)+missed != all {
			t.Errorf("%d sent, %d missed, of %d", sent, missed, all)
		}
	})
}
