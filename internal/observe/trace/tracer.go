package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/stint-io/stint/shard"
)

// Config defines which calls are traced, and the destination of their spans. All fields but Logger and Dial are
// required.
type Config struct {
	// Endpoint is the URL of the collector, which speaks OTLP over HTTP. Without a path, /v1/traces is added.
	Endpoint string
	// Roots is the share of traced calls among those without a traceparent, 0 to 1; Denials is that among denied calls
	// of the rest.
	Roots, Denials float64
	Node, Version  string // this node's id, and the version of the program
	// HideKey returns the keyed hash of a key; ok is false as long as there is no secret.
	HideKey func(namespace, key string) (hash string, ok bool)
	// Dial connects to the collector; nil means TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Exported and Dropped count spans. The reasons are "queue" (it is full), "collector" (it refused them, or was not
	// there) and "stop" (there was no time left).
	Exported func(spans int)
	Dropped  func(reason string, spans int)
	Now      func() time.Time
	Logger   *slog.Logger // nil disables logging
}

// Bounds of the waiting spans, and of sending.
const (
	waitMost   = 4096 // spans
	spansMost  = 512  // in one message
	sendEvery  = time.Second
	sendWithin = 10 * time.Second
	eventsMost = 64          // of one span
	logEvery   = time.Minute // between two log lines about a collector that takes nothing
)

// Tracer traces calls: it is the listener that ends their spans. Start makes one; nil is off.
type Tracer struct {
	config Config
	spans  oteltrace.Tracer // makes all spans; each goes to sender when it ends
	sender *sender
}

// Problem returns the problem with the URL of a collector, or "".
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

// Start starts a tracer. Close must be called. A collector that is not there is no error: spans are dropped then.
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
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(endpoint.String()),
		otlptracehttp.WithTimeout(sendWithin),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true,
			InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendWithin})}
	if config.Dial != nil {
		dial := func(ctx context.Context, _, addr string) (net.Conn, error) { return config.Dial(ctx, addr) }
		options = append(options,
			otlptracehttp.WithHTTPClient(
				&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}))
	}
	exporter, err := otlptracehttp.New(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("the exporter of traces: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.EventCountLimit = eventsMost
	t := &Tracer{config: config, sender: newSender(exporter, &config)}
	of := resource.NewSchemaless(attribute.String("service.name", "stint"),
		attribute.String("service.version", config.Version), attribute.String("service.instance.id", config.Node))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(t.sender),
		sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithRawSpanLimits(limits), sdktrace.WithResource(of))
	t.spans = provider.Tracer("github.com/stint-io/stint", oteltrace.WithInstrumentationVersion(config.Version))
	return t, nil
}

// Close sends the waiting spans, until ctx ends, and ends the goroutine.
func (t *Tracer) Close(ctx context.Context) {
	if t != nil {
		t.sender.close(ctx)
	}
}

// chosen draws at random: true for this share of calls.
func chosen(share float64) bool { return rand.Float64() < share }

// start begins a span below a parent; if the parent is not valid, it is the root of a new trace.
func (t *Tracer) start(
	parent oteltrace.SpanContext, name string, kind oteltrace.SpanKind, at time.Time,
) oteltrace.Span {
	ctx := oteltrace.ContextWithSpanContext(context.Background(), parent)
	_, span := t.spans.Start(ctx, name, oteltrace.WithSpanKind(kind), oteltrace.WithTimestamp(at))
	return span
}

// remote is a span of another node or of a caller.
func remote(at shard.TraceContext) oteltrace.SpanContext {
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: at.ID, SpanID: at.Span,
		TraceFlags: oteltrace.FlagsSampled, Remote: true})
}
