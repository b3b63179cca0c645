package api

import (
	"context"
	"log/slog"

	"github.com/stint-io/stint/shard"
)

// deeds is a Decider that logs each change by hand: the audit log of a shard holds so many, and a log is where nobody who makes changes
// can push out what he did before. The line has what was proven, and neither key nor note nor person: the audit record of that place has.
type deeds struct {
	Decider
	logger *slog.Logger
}

// Decide implements Decider.
func (d deeds) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	results := d.Decider.Decide(ctx, requests)
	for i := range requests {
		r := &requests[i]
		if r.Adjustment == nil || r.Adjustment.Actor == "" || results[i].Err != nil {
			continue
		}
		by := callerIn(ctx).Name()
		if by == "" {
			_, by = exchangeOf(ctx).named(ctx)
		}
		at, name := &results[i].Decision.Position, ""
		if len(r.Entries) > 0 {
			name = r.Entries[0].Policy
		}
		d.logger.Info("a key was changed by hand", "by", by, "deed", r.Op.Deed(), "namespace", r.Namespace,
			"policy", name, "limit", r.Limit, "amount", r.Adjustment.Amount, "shard", at.Shard, "epoch", at.Epoch, "seq", at.Seq)
	}
	return results
}
