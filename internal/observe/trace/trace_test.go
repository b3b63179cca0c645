package trace

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/shard"
)

const header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParse(t *testing.T) {
	parent, sampled, ok := Parse(header)
	if !ok || !sampled || hex.EncodeToString(parent.ID[:]) != header[3:35] ||
		hex.EncodeToString(parent.Span[:]) != header[36:52] {
		t.Errorf("%x %v %v", parent, sampled, ok)
	}
	for text, want := range map[string]struct{ sampled, ok bool }{
		header[:53] + "00":                   {false, true},
		header[:53] + "03":                   {true, true}, // a flag that is not known
		"01" + header[2:] + "-more":          {true, true}, // a later version
		"01" + header[2:] + "more":           {},
		"ff" + header[2:]:                    {},
		header + "-more":                     {}, // version 00 has no more
		header[:54]:                          {},
		"":                                   {},
		strings.ToUpper(header):              {},
		strings.Replace(header, "-", "_", 1): {},
		"00-" + strings.Repeat("0", 32) + header[35:]:       {},
		header[:36] + strings.Repeat("0", 16) + header[52:]: {},
		strings.Replace(header, "4b", "g0", 1):              {},
		"0g" + header[2:]:                                   {},
		header[:53] + "0g":                                  {},
		strings.Repeat("a", 4000):                           {},
	} {
		if _, sampled, ok := Parse(text); sampled != want.sampled || ok != want.ok {
			t.Errorf("%.70q: %v %v", text, sampled, ok)
		}
	}
}

// counts is where a test's tracer counts.
type counts struct{ exported, queue, collector, stop atomic.Int64 }

func tracerTo(t testing.TB, endpoint string, roots, denials float64) (*Tracer, *counts) {
	t.Helper()
	c := &counts{}
	tracer, err := Start(Config{Endpoint: endpoint, Roots: roots, Denials: denials, Node: "n", Now: time.Now,
		HideKey:  func(string, string) (string, bool) { return "hash", true },
		Exported: func(n int) { c.exported.Add(int64(n)) },
		Dropped: func(reason string, n int) {
			map[string]*atomic.Int64{"queue": &c.queue, "collector": &c.collector,
				"stop": &c.stop}[reason].Add(int64(n))
		}})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, c
}

// A call is traced if its header says so, and not if it says not; of the rest, the configured share is. A malformed
// header counts as none.
func TestSampling(t *testing.T) {
	at := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer at.Close()
	all, _ := tracerTo(t, at.URL, 1, 1)
	none, _ := tracerTo(t, at.URL, 0, 0)
	defer all.Close(t.Context())
	defer none.Close(t.Context())
	const followed, unfollowed, undecided = "followed", "unfollowed", "undecided"
	for _, c := range []struct {
		name      string
		headers   []string
		all, none string
	}{
		{"followed", []string{header}, followed, followed},
		{"not followed", []string{header[:53] + "00"}, unfollowed, unfollowed},
		{"no header", nil, followed, undecided},
		{"no valid header", []string{"?"}, followed, undecided},
		{"two headers", []string{header, header}, followed, undecided},
	} {
		for share, want := range map[*Tracer]string{all: c.all, none: c.none, nil: unfollowed} {
			call := share.Incoming(c.headers)
			got := unfollowed
			if call.span != nil {
				got = followed
			} else if call.tracer != nil {
				got = undecided
			}
			if got != want || (call.TraceID() != "") != (want == followed) ||
				(call.Check() != nil) != (want == followed) {
				t.Errorf("%s: %v, want %v", c.name, got, want)
			}
			if got == followed && c.name == "followed" && call.TraceID() != header[3:35] {
				t.Errorf("%s: trace %s", c.name, call.TraceID())
			}
		}
	}
	late := func(tracer *Tracer, outcome string) string {
		call := tracer.Incoming(nil)
		e := decisions.Event{Code: "ok", Began: time.Now(), Span: &call,
			Counted: []decisions.Count{{Name: "p", Kind: outcome, N: 1}}}
		tracer.Ended(&e)
		return e.TraceID
	}
	denials, _ := tracerTo(t, at.URL, 0, 1)
	defer denials.Close(t.Context())
	if late(none, "denied") != "" || late(denials, "denied") == "" || late(denials, "allowed") != "" ||
		late(nil, "denied") != "" {
		t.Error("denials are not followed as their share says")
	}
	stream := all.Incoming([]string{header})
	if batch := stream.Batch(); batch.TraceID() != stream.TraceID() ||
		batch.span.SpanContext().SpanID() == stream.span.SpanContext().SpanID() ||
		batch.remote.SpanID() != stream.remote.SpanID() {
		t.Error("a batch is no sibling of its stream's others")
	}
	root := all.Incoming(nil)
	if batch := root.Batch(); batch.TraceID() == root.TraceID() || batch.TraceID() == "" {
		t.Error("the batches of a stream without a parent are one trace")
	}
	if batch := new(Call).Batch(); batch.tracer != nil {
		t.Error("a batch of a stream that is not to be followed is")
	}
}

// A collector that takes nothing fills the queue, and no more: what does not fit is counted, and so is what is left
// when time is up.
func TestTheQueueIsBounded(t *testing.T) {
	over, asked := make(chan struct{}), make(chan struct{}, 10)
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer hanging.Close()
	defer close(over)
	tracer, c := tracerTo(t, hanging.URL, 1, 0)
	end := func() {
		call := tracer.Incoming(nil)
		tracer.Ended(&decisions.Event{System: "grpc", Method: "/a/B", Code: "ok", Began: time.Now(), Span: &call})
	}
	end()
	<-asked // the sending goroutine is busy from here on
	const calls = waitMost + 100
	for range calls {
		end()
	}
	if c.queue.Load() != 101 { // one is under way
		t.Errorf("%d spans were dropped, with room for all but 101", c.queue.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tracer.Close(ctx)
	end() // after the end
	if got := c.stop.Load(); got != waitMost+1 || c.exported.Load() != 0 {
		t.Errorf("%d dropped at the stop, %d sent", got, c.exported.Load())
	}
}

// A collector that refuses costs its spans, which are counted.
func TestWhatACollectorRefusesIsCounted(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer refusing.Close()
	tracer, c := tracerTo(t, refusing.URL, 1, 0)
	call := tracer.Incoming(nil)
	check := call.Check()
	check.Reached(shard.TraceQueued, time.Now())
	Decided(check)
	e := decisions.Event{Method: "m", Code: "ok", Span: &call}
	r := shard.Request{Op: shard.Check, Entries: []shard.Entry{{Policy: "p", Key: "k"}}}
	e.Ask(decisions.Asked{Requests: []shard.Request{r}, Results: make([]shard.Result, 1), Span: check})
	tracer.Ended(&e)
	tracer.Ended(&e) // once is enough
	check.Reached(shard.TraceInstalled, time.Now())
	tracer.Close(t.Context())
	if c.collector.Load() != 2 || c.exported.Load() != 0 {
		t.Errorf("%d refused, %d sent", c.collector.Load(), c.exported.Load())
	}
}

func TestURLsOfACollector(t *testing.T) {
	for url, good := range map[string]bool{"http://localhost:4318": true,
		"https://otel.example.com/v1/traces": true, "": false, "localhost:4318": false, "grpc://x": false,
		"http://user:secret@x": false, "http://x?y=z": false} {
		if problem := Problem(url); (problem == "") != good || strings.Contains(problem, "secret") {
			t.Errorf("%s: %q", url, problem)
		}
	}
}

// BenchmarkIncoming is what each call pays before it is known whether it is followed.
func BenchmarkIncoming(b *testing.B) {
	at := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer at.Close()
	none, _ := tracerTo(b, at.URL, 0.0, 0)
	defer none.Close(b.Context())
	for _, c := range []struct {
		name    string
		tracer  *Tracer
		headers []string
	}{{"off", nil, nil}, {"unsampled", none, nil}, {"not-to-be", none, []string{header[:53] + "00"}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if call := c.tracer.Incoming(c.headers); call.span != nil {
					b.Fatal("it is followed")
				}
			}
		})
	}
}

// Parse reads exactly what a header says.
func FuzzParse(f *testing.F) {
	f.Add(header)
	f.Add("01" + header[2:] + "-more")
	f.Fuzz(func(t *testing.T, text string) {
		parent, sampled, ok := Parse(text)
		if !ok {
			return
		}
		flags, err := hex.DecodeString(text[53:55])
		if got := "-" + hex.EncodeToString(parent.ID[:]) + "-" + hex.EncodeToString(parent.Span[:]) + "-"; err != nil ||
			got != text[2:53] || sampled != (flags[0]&1 == 1) {
			t.Errorf("%q is taken as %s", text, got)
		}
	})
}
