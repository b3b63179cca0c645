package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Config says which calls are followed, and where their spans go. All fields but Logger and Dial are required.
type Config struct {
	// Endpoint is the URL of the collector, which speaks OTLP over HTTP. Without a path it is that of /v1/traces.
	Endpoint string
	// Roots is the share of the calls without a traceparent that are followed, 0 to 1; Denials that of those that were denied among
	// the rest.
	Roots, Denials float64
	Node, Version  string // of this node
	// HideKey returns the keyed hash of a key; ok is false as long as there is no secret.
	HideKey func(namespace, key string) (hash string, ok bool)
	// Dial connects to the collector; nil: TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Exported and Dropped count spans. The reasons are "queue" (it is full), "collector" (it refused them, or was not there) and
	// "stop" (there was no time left).
	Exported func(spans int)
	Dropped  func(reason string, spans int)
	Now      func() time.Time
	Logger   *slog.Logger // nil: nothing is logged
}

// Bounds of the queue and of the sending.
const (
	queueMost  = 2048 // calls
	spansMost  = 512  // in one message
	sendEvery  = time.Second
	sendWithin = 10 * time.Second
	tellEvery  = time.Minute // between two lines of the log about a collector that takes nothing
)

// Tracer follows calls. Start makes one; nil is off.
type Tracer struct {
	config         Config
	roots, denials uint64 // of 2^64
	client         otlptrace.Client
	resource       *resourcepb.Resource
	queue          chan []*tracepb.Span
	closed         atomic.Bool
	stop           chan struct{}
	stopOnce       sync.Once
	sending        context.Context
	cancel         context.CancelFunc
	running        sync.WaitGroup
	told           time.Time // when the log last said that the collector takes nothing; of the sending goroutine
}

// Problem says what is wrong with the URL of a collector; "": nothing.
func Problem(endpoint string) string {
	at, err := url.Parse(endpoint)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return "must be a URL as in http://localhost:4318"
	case at.User != nil:
		return "must not have a password: OTEL_EXPORTER_OTLP_HEADERS is for those"
	case at.RawQuery != "" || at.Fragment != "":
		return "must end with its path"
	}
	return ""
}

// Start starts a tracer. Close must be called.
func Start(config Config) (*Tracer, error) {
	if problem := Problem(config.Endpoint); problem != "" {
		return nil, errors.New("the collector of traces " + problem)
	}
	endpoint, _ := url.Parse(config.Endpoint)
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/traces"
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(endpoint.String()), otlptracehttp.WithTimeout(sendWithin),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true,
			InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendWithin})}
	if config.Dial != nil {
		dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return config.Dial(ctx, addr) }
		options = append(options, otlptracehttp.WithHTTPClient(&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}))
	}
	t := &Tracer{config: config, roots: shareOf(config.Roots), denials: shareOf(config.Denials), stop: make(chan struct{}),
		queue:  make(chan []*tracepb.Span, queueMost),
		client: otlptracehttp.NewClient(options...),
		resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", "stint"),
			text("service.version", config.Version), text("service.instance.id", config.Node)}}}
	t.sending, t.cancel = context.WithCancel(context.Background())
	if err := t.client.Start(t.sending); err != nil {
		t.cancel()
		return nil, fmt.Errorf("the exporter of traces: %w", err)
	}
	t.running.Go(t.run)
	return t, nil
}

// shareOf returns a share as a threshold for a random number.
func shareOf(share float64) uint64 {
	switch {
	case !(share > 0):
		return 0
	case share >= 1:
		return math.MaxUint64
	}
	return uint64(share * (1 << 63) * 2)
}

// chosen throws the dice.
func chosen(share uint64) bool { return share > 0 && rand.Uint64() <= share }

// Close sends the spans that wait, until ctx ends, and ends the goroutine.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.closed.Store(true)
	t.stopOnce.Do(func() { close(t.stop) })
	over := context.AfterFunc(ctx, t.cancel)
	defer over()
	t.running.Wait()
	t.cancel()
	_ = t.client.Stop(context.Background()) // it only ends requests, and there are none
}

// send puts the spans of a call into the queue.
func (t *Tracer) send(spans []*tracepb.Span) {
	if t.closed.Load() {
		t.config.Dropped("stop", len(spans))
		return
	}
	select {
	case t.queue <- spans:
	default:
		t.config.Dropped("queue", len(spans))
	}
}

// run sends what is in the queue.
func (t *Tracer) run() {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	var batch []*tracepb.Span
	for {
		select {
		case spans := <-t.queue:
			if batch = append(batch, spans...); len(batch) < spansMost {
				continue
			}
		case <-tick.C:
		case <-t.stop:
			t.sendRest(batch)
			return
		}
		t.upload(batch)
		batch = nil
	}
}

// sendRest sends what is left when the tracer stops.
func (t *Tracer) sendRest(batch []*tracepb.Span) {
	for {
		select {
		case spans := <-t.queue:
			if batch = append(batch, spans...); len(batch) >= spansMost {
				t.upload(batch)
				batch = nil
			}
		default:
			t.upload(batch)
			return
		}
	}
}

func (t *Tracer) upload(batch []*tracepb.Span) {
	if len(batch) == 0 {
		return
	}
	if t.sending.Err() != nil {
		t.config.Dropped("stop", len(batch))
		return
	}
	ctx, cancel := context.WithTimeout(t.sending, sendWithin)
	defer cancel()
	err := t.client.UploadTraces(ctx, []*tracepb.ResourceSpans{{Resource: t.resource, ScopeSpans: []*tracepb.ScopeSpans{{
		Scope: &commonpb.InstrumentationScope{Name: "github.com/stint-io/stint", Version: t.config.Version}, Spans: batch}}}})
	switch {
	case err == nil:
		t.config.Exported(len(batch))
	case t.sending.Err() != nil:
		t.config.Dropped("stop", len(batch))
	default:
		t.config.Dropped("collector", len(batch))
		if now := time.Now(); now.Sub(t.told) >= tellEvery {
			t.told = now
			t.config.Logger.Warn("the collector of traces takes no spans; stint_trace_spans_dropped_total counts them", "error", err)
		}
	}
}

func text(name, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func number(name string, value int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}

func yesNo(name string, value bool) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: name, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: value}}}
}
