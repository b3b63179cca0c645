package api

import (
	"context"
	"log/slog"

	"github.com/stint-io/stint/shard"
)

// changeLogger is a Decider that logs each change by hand. A shard's audit log is bounded, so a person with many
// changes could push earlier ones out of it, but not out of a log. The line holds the proven actor, but neither key nor
// note nor person; the audit record at that position does.
type changeLogger struct {
	Decider
	logger *slog.Logger
}

// Decide implements Decider.
func (d changeLogger) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	results := d.Decider.Decide(ctx, requests)
	for i := range requests {
		r := &requests[i]
		if r.Adjustment == nil || r.Adjustment.Actor == "" || results[i].Err != nil {
			continue
		}
		by := callerIn(ctx).Name()
		if by == "" {
			by = exchangeOf(ctx).remote
		}
		at, name := &results[i].Decision.Position, ""
		if len(r.Entries) > 0 {
			name = r.Entries[0].Policy
		}
		d.logger.Info("a key was changed by hand", "by", by, "deed", r.Op.Deed(), "namespace", r.Namespace,
			"policy", name, "limit", r.Limit, "amount", r.Adjustment.Amount, "shard", at.Shard, "epoch", at.Epoch,
			"seq", at.Seq)
	}
	return results
}
