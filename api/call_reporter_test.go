package api

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/observe/trace"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// followedBy is an API over a Decider that does nothing.
func followedBy(t testing.TB, tracer *trace.Tracer, bus *decisions.Bus) *API {
	t.Helper()
	set := testPolicies()
	return newAPI(Config{Decider: quickDecider{}, Revision: func() *policy.Revision {
		return &policy.Revision{Version: 1, Set: set}
	},
		Sealer: func() *shard.Sealer { return testSealer }, Ready: func() error { return nil },
		Metrics: http.NotFoundHandler(), Tracer: tracer, Listeners: decisions.Listeners{tracer, bus}})
}

// tracerOf follows a share of the calls. Its collector takes everything.
func tracerOf(t testing.TB, share float64) *trace.Tracer {
	t.Helper()
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tracer, err := trace.Start(trace.Config{Endpoint: collector.URL, Roots: share, Node: "n", Now: time.Now,
		HideKey:  func(string, string) (string, bool) { return "0123456789abcdef", true },
		Exported: func(int) {}, Dropped: func(string, int) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tracer.Close(t.Context())
		collector.Close()
	})
	return tracer
}

// request makes the request of a check; traceparent "": none.
func request(traceparent string) *http.Request {
	r := httptest.NewRequest("POST", "/stint.v1.LimitService/Check", strings.NewReader(perIP))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	return r
}

const notFollowed = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

// A call that is not followed allocates as often as if there were no tracing.
func TestACallThatIsNotFollowedAllocatesNothingMore(t *testing.T) {
	off, on := followedBy(t, nil, nil), followedBy(t, tracerOf(t, 0), nil)
	for _, traceparent := range []string{"", notFollowed} {
		call := func(a *API) func() {
			return func() { a.ServeHTTP(httptest.NewRecorder(), request(traceparent)) }
		}
		if more, with, without := allocatesMore(call(on), call(off)); more {
			t.Errorf("traceparent %q: %v allocations, without tracing %v", traceparent, with, without)
		}
	}
}

// BenchmarkTrace is a check through the fast path, without a network and with a decision that costs nothing: what
// following it costs.
func BenchmarkTrace(b *testing.B) {
	for _, c := range []struct {
		name        string
		tracer      *trace.Tracer
		traceparent string
	}{{"off", nil, ""}, {"unsampled", tracerOf(b, 0), ""}, {"told not to", tracerOf(b, 0), notFollowed},
		{"sampled", tracerOf(b, 1), ""}} {
		a := followedBy(b, c.tracer, nil)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.ServeHTTP(httptest.NewRecorder(), request(c.traceparent))
			}
		})
	}
}

// The level of the log is shown and changed by a path, and the log says so whichever level it goes to.
func TestTheLevelOfTheLogIsChanged(t *testing.T) {
	var text bytes.Buffer
	level := new(slog.LevelVar)
	set := testPolicies()
	a := newAPI(Config{Decider: quickDecider{}, Revision: func() *policy.Revision {
		return &policy.Revision{Version: 1, Set: set}
	},
		Ready: func() error { return nil }, Metrics: http.NotFoundHandler(),
		Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})), LogLevel: level})
	ask := func(method, body string) (int, string) {
		r := httptest.NewRequest(method, logLevelPath, strings.NewReader(body))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct{ method, body, want string }{
		{"GET", "", "info\n"}, {"PUT", "debug", "debug\n"}, {"PUT", "ERROR\n", "error\n"}, {"GET", "", "error\n"},
		{"PUT", "warn", "warn\n"},
	} {
		text.Reset()
		if code, got := ask(c.method, c.body); code != 200 || got != c.want {
			t.Errorf("%s %q: %d %q", c.method, c.body, code, got)
		}
		if c.method == "PUT" && !strings.Contains(text.String(), "to="+strings.TrimSpace(c.want)) {
			t.Errorf("PUT %q: the log says %q", c.body, text.String())
		}
	}
	if code, got := ask("PUT", "loud"); code != 400 || !strings.Contains(got, "debug, info, warn or error") ||
		level.Level() != slog.LevelWarn {
		t.Errorf("%d %q, and the level is %v", code, got, level)
	}
	if code, _ := ask("POST", "debug"); code != 405 {
		t.Errorf("POST: %d", code)
	}
}

// An event names the trace of its call, so that a line of the decision log leads to it.
func TestAnEventNamesItsTrace(t *testing.T) {
	bus := decisions.NewBus("n1", nil)
	a := followedBy(t, tracerOf(t, 0), bus)
	l := &listener{t, bus.Open(&decisions.Filter{Namespace: "default"})}
	t.Cleanup(l.r.Close)
	a.ServeHTTP(httptest.NewRecorder(), request("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	if got := l.next("a followed check", 1)[0].TraceID; got != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the event of a followed call names trace %q", got)
	}
	a.ServeHTTP(httptest.NewRecorder(), request(notFollowed))
	if got := l.next("a check that nobody follows", 1)[0].TraceID; got != "" {
		t.Errorf("the event of a call that nobody follows names trace %q", got)
	}
}

// tracesSeen is a listener that remembers the traces of calls.
type tracesSeen struct{ ids []string }

// Ended implements decisions.Listener.
func (s *tracesSeen) Ended(e *decisions.Event) { s.ids = append(s.ids, e.TraceID) }

// A listener behind the tracer gets the id of a traced call, on the fast path and behind a gate, and "" if it is not
// traced.
func TestListenersGetTheTraceOfAFollowedCall(t *testing.T) {
	const followed = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	set := testPolicies()
	for name, c := range map[string]struct {
		tracer *trace.Tracer
		want   map[string]string
	}{
		"without tracing": {nil, map[string]string{followed: "", notFollowed: "", "": ""}},
		"with tracing": {tracerOf(t, 0), map[string]string{followed: "4bf92f3577b34da6a3ce929d0e0e4736",
			notFollowed: "", "": ""}},
	} {
		seen := &tracesSeen{}
		a := newAPI(Config{Decider: quickDecider{}, Revision: func() *policy.Revision {
			return &policy.Revision{Version: 1, Set: set}
		},
			Sealer: func() *shard.Sealer { return testSealer }, Ready: func() error {
				return nil
			}, Listeners: decisions.Listeners{c.tracer, seen},
			Metrics: http.NotFoundHandler(), Tracer: c.tracer})
		for traceparent, want := range c.want {
			asked := map[string]*http.Request{"a check": request(traceparent),
				"a gate": httptest.NewRequest("GET", "/gate/none", nil)}
			asked["a gate"].Header.Set("Traceparent", traceparent)
			for what, r := range asked {
				seen.ids = nil
				a.ServeHTTP(httptest.NewRecorder(), r)
				if len(seen.ids) != 1 || seen.ids[0] != want {
					t.Errorf("%s, %s, traceparent %q: the listener got %q, want %q",
						name, what, traceparent, seen.ids, want)
				}
			}
		}
	}
}
