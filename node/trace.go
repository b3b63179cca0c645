package node

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-io/stint/internal/observe/calllog"
	"github.com/stint-io/stint/internal/observe/trace"
)

// traceFlush bounds how long a stopping node sends spans: a collector that is gone keeps it no longer.
const traceFlush = 2 * time.Second

// startTracer starts following calls, if there is a collector. It comes after assemble, and before the ports of clients
// are served.
func (n *Node) startTracer() (err error) {
	n.calls = calllog.New(n.config.Logger, n.config.LogSlow, time.Now)
	if n.config.TraceOTLP == "" {
		return nil
	}
	n.tracer, err = trace.Start(trace.Config{
		Endpoint: n.config.TraceOTLP,
		Roots:    n.config.TraceRatio,
		Denials:  n.config.TraceDenials,
		Node:     n.id,
		Version:  n.config.Version,
		HideKey:  n.topReader.HideKey,
		Now:      n.config.World.Now,
		Dial:     n.config.World.Dial,
		Logger:   n.config.Logger,
		Exported: n.metrics.SpansExported,
		Dropped:  n.metrics.SpansDropped,
	})
	return err
}

// closeTracer sends the spans that wait.
func (n *Node) closeTracer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, traceFlush)
	defer cancel()
	n.tracer.Close(ctx)
}

// traceProblem says what is wrong with the settings of traces and of the log of calls; nil: nothing.
func (c *Config) traceProblem() error {
	if c.TraceOTLP != "" {
		if problem := trace.Problem(c.TraceOTLP); problem != "" {
			return fmt.Errorf("trace-otlp: %s", problem)
		}
	}
	for _, share := range []struct {
		flag  string
		value float64
	}{{"trace-ratio", c.TraceRatio}, {"trace-denials", c.TraceDenials}} {
		if !(share.value >= 0 && share.value <= 1) {
			return fmt.Errorf("%s: is %v: it must be 0 to 1", share.flag, share.value)
		}
	}
	if c.LogSlow < 0 {
		return fmt.Errorf("log-slow: is %v: it must not be negative", c.LogSlow)
	}
	return nil
}
