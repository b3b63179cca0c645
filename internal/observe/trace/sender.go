package trace

import (
	"context"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/stint-io/stint/internal/observe/loglimit"
)

// sender is between the spans and the SDK's batches, and between those and the exporter. It bounds and counts waiting
// spans: the SDK drops excess spans silently. All methods may be called concurrently.
type sender struct {
	config   *Config
	exporter sdktrace.SpanExporter
	batches  sdktrace.SpanProcessor // its goroutine ends with close
	waiting  atomic.Int64           // spans that have ended, and are neither exported nor dropped
	closed   atomic.Bool            // close was called: further spans are dropped
	sending  context.Context        // ends when there is no time left for sending
	cancel   context.CancelFunc
	lines    loglimit.Limit // of the log, about a collector that takes nothing
}

func newSender(exporter sdktrace.SpanExporter, config *Config) *sender {
	s := &sender{config: config, exporter: exporter, lines: loglimit.Limit{Most: 1, Per: logEvery}}
	s.sending, s.cancel = context.WithCancel(context.Background())
	s.batches = sdktrace.NewBatchSpanProcessor(exports{s}, sdktrace.WithMaxQueueSize(waitMost),
		sdktrace.WithMaxExportBatchSize(spansMost), sdktrace.WithBatchTimeout(sendEvery),
		sdktrace.WithExportTimeout(sendWithin))
	return s
}

// OnStart implements sdktrace.SpanProcessor.
func (s *sender) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (s *sender) OnEnd(span sdktrace.ReadOnlySpan) {
	switch {
	case s.closed.Load():
		s.config.Dropped("stop", 1)
	case s.waiting.Add(1) > waitMost:
		s.waiting.Add(-1)
		s.config.Dropped("queue", 1)
	default:
		s.batches.OnEnd(span)
	}
}

// ForceFlush and Shutdown implement sdktrace.SpanProcessor, for a provider that is never shut down.
func (s *sender) ForceFlush(context.Context) error { return nil }
func (s *sender) Shutdown(context.Context) error   { return nil }

// close sends the waiting spans until ctx ends, and returns when the goroutine of batches has ended.
func (s *sender) close(ctx context.Context) {
	s.closed.Store(true)
	defer context.AfterFunc(ctx, s.cancel)()
	_ = s.batches.Shutdown(context.Background()) // exports end with sending, and report their losses
	s.cancel()
	if late := s.waiting.Swap(0); late > 0 { // they ended while this began
		s.config.Dropped("stop", int(late))
	}
}

// exports is the sender as the exporter of batches.
type exports struct{ *sender }

// ExportSpans implements sdktrace.SpanExporter. One goroutine calls it. It hides failures from the SDK, which would
// write them to the standard error.
func (s exports) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.sending, cancel)()
	err := s.exporter.ExportSpans(ctx, spans)
	s.waiting.Add(-int64(len(spans)))
	switch {
	case err == nil:
		s.config.Exported(len(spans))
	case s.sending.Err() != nil:
		s.config.Dropped("stop", len(spans))
	default:
		s.config.Dropped("collector", len(spans))
		if _, ok := s.lines.Allow("", time.Now()); ok {
			s.config.Logger.Warn("the collector of traces takes no spans; stint_trace_spans_dropped_total counts them",
				"error", err)
		}
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (s exports) Shutdown(ctx context.Context) error { return s.exporter.Shutdown(ctx) }
