package node

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// collector is a collector of traces: it decodes what nodes send.
type collector struct {
	*httptest.Server
	t testing.TB

	mu    sync.Mutex
	spans []span
}

type span struct {
	*tracepb.Span
	node string
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{t: t}
	c.Server = newServer(t, c)
	c.Start()
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	var sent collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, one := range scope.Spans {
				c.spans = append(c.spans, span{one, attribute(resource.Resource.Attributes, "service.instance.id")})
			}
		}
	}
}

// of returns the spans of a trace, by the id of their parent.
func (c *collector) of(trace string) map[string][]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string][]span{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == trace {
			parent := hex.EncodeToString(s.ParentSpanId)
			found[parent] = append(found[parent], s)
		}
	}
	return found
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans)
}

func attribute(all []*commonpb.KeyValue, name string) string {
	for _, a := range all {
		if a.Key != name {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_BoolValue:
			return fmt.Sprint(v.BoolValue)
		}
	}
	return "absent"
}

func events(s span) (names []string) {
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	return names
}

// traced asks a node once, with a traceparent.
func traced(t testing.TB, n *Node, key, traceparent string) (answer string) {
	t.Helper()
	body := fmt.Sprintf(`{"entries":[{"policy":"asked","key":%q}]}`, key)
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+n.APIAddr()+"/stint.v1.LimitService/Check",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	response, err := clientOf(n).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", response.Status, text)
	}
	return string(text)
}

const (
	aTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	aParent = "00f067aa0ba902b7"
)

// One check that is followed, asked on a node that does not own its shard: a call, what was decided, and the owner's
// part, each under the one before, all in the trace of the caller. The key is nowhere.
func TestATraceOfACheckThroughTwoNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		at := newCollector(t)
		c := trioToBe(t)
		for i := range c.configs {
			c.configs[i].TraceOTLP = at.URL
			c.start(i)
		}
		c.ready(0, 1, 2)
		const key = "a-key-to-look-for"
		asked := c.notTheOwnerOf(key)
		trace := func(id string) string { return "00-" + id + "-" + aParent + "-01" }
		traced(t, c.nodes[asked], key, trace(aTrace))
		denied := strings.Replace(aTrace, "4b", "5c", 1)
		if answer := traced(t, c.nodes[asked], key, trace(denied)); !strings.Contains(answer, `"allowed":false`) {
			t.Fatal(answer)
		}
		for id, want := range map[string]string{aTrace: "allowed", denied: "denied"} {
			var call, check, decided span
			// a shard that moves meanwhile leaves further ones, without all events
			await.Until(t, "three spans of "+id, func() bool {
				spans := at.of(id)
				for _, call = range spans[aParent] {
					for _, check = range spans[hex.EncodeToString(call.SpanId)] {
						for _, decided = range spans[hex.EncodeToString(check.SpanId)] {
							if len(decided.Events) == 3 {
								return true
							}
						}
					}
				}
				return false
			})
			if call.Name != "stint.v1.LimitService/Check" || call.Kind != tracepb.Span_SPAN_KIND_SERVER ||
				call.node != c.nodes[asked].ID() ||
				attribute(call.Attributes, "rpc.system.name") != "connectrpc" ||
				attribute(call.Attributes, "rpc.method") != call.Name ||
				attribute(call.Attributes, "rpc.response.status_code") != "ok" ||
				attribute(call.Attributes, "error.type") != "absent" ||
				call.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
				t.Errorf("the call: %v", call)
			}
			if check.Name != "ratelimit.check" || check.node != call.node ||
				attribute(check.Attributes, "stint.decision") != want ||
				attribute(check.Attributes, "stint.policy") != "asked" ||
				attribute(check.Attributes, "stint.remaining") != "0" ||
				attribute(check.Attributes, "stint.cached") != "false" ||
				len(attribute(check.Attributes, "stint.key_hash")) < 16 ||
				attribute(check.Attributes, "stint.shard") == "absent" || len(check.Events) > 0 ||
				check.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
				t.Errorf("the check: %v", check)
			}
			if by := attribute(check.Attributes, "stint.denied_by"); want == "denied" && by != "asked/total" ||
				want == "allowed" && by != "absent" {
				t.Errorf("denied by %s", by)
			}
			if decided.Name != "ratelimit.decide" || decided.node == call.node ||
				fmt.Sprint(events(decided)) != "[queued proposed installed]" {
				t.Errorf("the owner's part: %v", decided)
			}
			for _, s := range []span{call, check, decided} {
				if strings.Contains(s.String(), key) || s.EndTimeUnixNano < s.StartTimeUnixNano {
					t.Errorf("%v", s)
				}
			}
		}
	})
}

// notTheOwnerOf returns a node that forwards requests about a key.
func (c *trio) notTheOwnerOf(key string) (index int) {
	c.t.Helper()
	id, failed := c.nodes[0].router.Place(c.t.Context(), shard.DefaultNamespace, key)
	if failed != nil {
		c.t.Fatal(failed)
	}
	await.Until(c.t, "an owner of the shard", func() bool {
		for i, n := range c.nodes {
			if _, open := n.replicas.owner(id); open {
				index = (i + 1) % len(c.nodes)
				return true
			}
		}
		return false
	})
	return index
}

// A node that decides for itself has the events in the check, and needs no third span. What asks not to be followed is
// not; nor is anything while the share of roots is 0, except for denials, which have a share of their own.
func TestTracesOfALoneNode(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		at := newCollector(t)
		config := testConfig(t)
		config.TraceOTLP, config.TraceDenials = at.URL+"/v1/traces", 1
		n := start(t, config)
		traced(t, n, "followed", "00-"+aTrace+"-"+aParent+"-01")
		traced(t, n, "not followed", "00-"+strings.Replace(aTrace, "4", "5", 1)+"-"+aParent+"-00")
		traced(t, n, "a bad header", "00-"+aTrace+"-0000000000000000-01")
		traced(t, n, "no header", "")
		traced(t, n, "no header", "") // is denied
		stop(t, n)                    // which sends what waits
		spans := at.of(aTrace)
		if len(spans) != 2 || at.count() != 4 {
			t.Fatalf("%d spans, of %v", at.count(), spans)
		}
		check := spans[hex.EncodeToString(spans[aParent][0].SpanId)][0]
		if fmt.Sprint(events(check)) != "[queued proposed installed]" {
			t.Errorf("%v", check)
		}
		at.mu.Lock()
		defer at.mu.Unlock()
		for _, s := range at.spans {
			if hex.EncodeToString(s.TraceId) == aTrace {
				continue
			}
			if s.Name == "ratelimit.check" && attribute(s.Attributes, "stint.decision") != "denied" ||
				s.EndTimeUnixNano < s.StartTimeUnixNano || s.Name != "ratelimit.check" && len(s.ParentSpanId) > 0 {
				t.Errorf("%v", s)
			}
		}
	})
}

// A scrape in OpenMetrics finds the traces of calls beside the buckets of their durations, those of Redis commands too.
func TestLatenciesLeadToTraces(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.TraceOTLP, config.TraceRatio, config.RedisAddr = newCollector(t).URL+"/v1/traces", 1, "127.0.0.1:0"
		n := start(t, config)
		defer stop(t, n)
		traced(t, n, "followed", "00-"+aTrace+"-"+aParent+"-01")
		redis, err := dialerOf(n)(t.Context(), "tcp", n.RedisAddr())
		if err != nil {
			t.Fatal(err)
		}
		defer redis.Close()
		if _, err := io.WriteString(redis, "PING\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(redis, make([]byte, len("+PONG\r\n"))); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "both histograms have a trace", func() bool {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
			r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
			n.metrics.Handler().ServeHTTP(w, r)
			has := func(buckets, exemplar string) bool {
				return regexp.MustCompile(`(?m)^stint_` + buckets + `_bucket\{.*\} \d+ # \{trace_id="` + exemplar +
					`"\}`).MatchString(w.Body.String())
			}
			return has("request_duration_seconds", aTrace) && has("redis_round_duration_seconds", "[0-9a-f]{32}")
		})
	})
}

// Without a collector nothing is sent, whatever callers ask for.
func TestWithoutACollectorNothingIsFollowed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		at := newCollector(t)
		config := testConfig(t)
		config.TraceRatio, config.TraceDenials = 1, 1
		n := start(t, config)
		traced(t, n, "k", "00-"+aTrace+"-"+aParent+"-01")
		stop(t, n)
		if at.count() != 0 || n.tracer != nil {
			t.Errorf("%d spans", at.count())
		}
	})
}

// A collector that never answers delays neither a call nor the node's stop for long.
func TestACollectorThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		over := make(chan struct{})
		hanging := newServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
		hanging.Start()
		defer hanging.Close()
		defer close(over)
		config := testConfig(t)
		config.TraceOTLP, config.TraceRatio = hanging.URL, 1
		n := start(t, config)
		for i := range 50 {
			traced(t, n, fmt.Sprint("key", i), "")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil || ctx.Err() != nil {
			t.Error(err, ctx.Err())
		}
	})
}
