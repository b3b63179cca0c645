package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type watchCommand struct {
	Policies   []string `arg:"" optional:"" name:"policy" help:"Only these policies. Limits that came with requests are under \"inline\"."`
	Namespace  string   `help:"Default: the server's."`
	Key        string   `short:"k" help:"Only this key."`
	Prefix     string   `help:"Only keys that begin with this text." placeholder:"TEXT"`
	Denied     bool     `help:"Only denials."`
	Thresholds bool     `help:"Only keys that reach a threshold."`
	Lockouts   bool     `help:"Only keys that a ladder begins to block."`
	Changes    bool     `help:"Only changes by hand."`
	Count      uint64   `short:"n" help:"End after this many. Default: with Ctrl-C." placeholder:"N"`
	asking
}

// Run prints decisions until it is interrupted, or has printed the requested number.
func (c *watchCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	asked := &stintv1.WatchRequest{Namespace: c.Namespace, Policies: c.Policies, Key: c.Key, KeyPrefix: c.Prefix}
	for _, only := range []struct {
		wanted bool
		kind   stintv1.EventKind
	}{{c.Denied, stintv1.EventKind_EVENT_KIND_DENIED}, {c.Thresholds, stintv1.EventKind_EVENT_KIND_THRESHOLD},
		{c.Lockouts, stintv1.EventKind_EVENT_KIND_LOCKOUT}, {c.Changes, stintv1.EventKind_EVENT_KIND_AUDIT}} {
		if only.wanted {
			asked.Kinds = append(asked.Kinds, only.kind)
		}
	}
	stream, err := c.observe().Watch(ctx, connect.NewRequest(asked))
	if err != nil {
		return c.ended(ctx, err)
	}
	defer stream.Close()
	for seen := uint64(0); c.Count == 0 || seen < c.Count; {
		if !stream.Receive() {
			return c.ended(ctx, stream.Err())
		}
		if stream.Msg().Kind != stintv1.EventKind_EVENT_KIND_STREAM {
			seen++
		}
		if err := errors.Join(show(s, c.output, stream.Msg(), nil, c.print), s.failed()); err != nil {
			return err
		}
	}
	return nil
}

// ended explains the end of a stream, unless the user asked for it.
func (c *watchCommand) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return c.explain(ctx, "watch", err, "")
}

func (c *watchCommand) print(s streams, e *stintv1.Event) {
	if e.Missed > 0 {
		fmt.Fprintf(s.err, "stint: %s missed: this terminal, or a node, was too slow\n", plural(e.Missed, "event"))
	}
	if len(e.MissingNodes) > 0 {
		fmt.Fprintf(s.err, "stint: missing is what these nodes decide, which do not answer: %s\n",
			strings.Join(e.MissingNodes, ", "))
	}
	switch {
	case e.Decision != nil:
		fmt.Fprintln(s.out, decisionLine(e))
	case e.Threshold != nil:
		fmt.Fprintf(s.out, "%s  %s of %s/%s, silent %s\n", eventHead(e, "threshold"), thresholdText(e.Threshold),
			e.Policy, e.Threshold.Limit, silentText(e.Threshold, e.At))
	case e.Lockout != nil:
		fmt.Fprintf(s.out, "%s  level %d, for %s\n", eventHead(e, "lockout"), e.Lockout.Level,
			roughly(e.Lockout.BlockedUntil.AsTime().Sub(e.At.AsTime())))
	case e.Change != nil:
		fmt.Fprintln(s.out, changeLine(e))
	}
}

// eventHead formats when what happened, and to which key.
func eventHead(e *stintv1.Event, what string) string {
	key := e.Key
	if e.Hashed {
		key = "#" + key
	}
	return fmt.Sprintf("%s  %-13s  %s  %s", e.At.AsTime().UTC().Format("15:04:05.000"), what, e.Policy, key)
}

// changeLine formats a change by hand.
func changeLine(e *stintv1.Event) string {
	c, line := e.Change, eventHead(e, e.Change.Deed)
	if c.Before != "" || c.After != "" {
		line += "  " + c.Before + " -> " + c.After
	}
	if line += "  by " + c.Actor; c.Note != "" {
		line += ": " + c.Note
	}
	return line
}

// decisionLine formats a decision: when, what, about which key, why, by whom and on which node.
func decisionLine(e *stintv1.Event) string {
	d := e.Decision
	line := eventHead(e, d.Outcome)
	if d.Cost != 1 {
		line += fmt.Sprintf(" x %d", d.Cost)
	}
	if len(d.DeniedBy) > 0 {
		line += "  by " + strings.Join(d.DeniedBy, ", ")
	}
	switch {
	case d.RetryAfter != nil:
		line += ", again in " + roughly(d.RetryAfter.AsDuration())
	case d.Allowed && d.Remaining != nil:
		line += fmt.Sprintf("  %d left", *d.Remaining)
	}
	if n := len(d.Others); n > 0 {
		line += fmt.Sprintf("  and %s", plural(uint64(n), "other key"))
	}
	line += "  (" + d.Node + " " + d.Protocol
	if d.Token != "" {
		line += " " + d.Token
	}
	return line + " " + d.Duration.AsDuration().String() + ")"
}

// roughly rounds a wait up for display.
func roughly(d time.Duration) string {
	switch {
	case d > centuries: //mutant:endless-block-is-over
		return centuriesText
	case d > time.Second:
		return (d + time.Second - 1).Truncate(time.Second).String()
	}
	return d.String()
}
