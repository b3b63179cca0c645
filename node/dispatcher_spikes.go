package node

import (
	"context"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// spikesMost bounds the keys of one shard that are told in a minute: those with most denials.
const spikesMost = 32

// spikes looks once a minute for keys of the shards owned here that are denied far more often than before, and has
// their shards write an event for each. The shard knows the spikes of the last ten minutes, also those that an owner
// before this one reported, so reporting one twice is harmless.
func (d *dispatcher) spikes(ctx context.Context) {
	minute := d.now().Truncate(time.Minute)
	if !minute.After(d.spikesOf) {
		return
	}
	d.spikesOf = minute
	for _, r := range d.replicas.all() {
		if r.Shard == shard.System || !r.actor.Open() {
			continue
		}
		if seen := r.actor.Spikes(ctx); len(seen) > 0 {
			d.trying.Go(func() { d.noteSpikes(ctx, seen[:min(len(seen), spikesMost)]) })
		}
	}
}

// noteSpikes has a shard note what was seen of its keys.
func (d *dispatcher) noteSpikes(ctx context.Context, seen []top.Spike) {
	within, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	requests := make([]shard.Request, len(seen))
	for i, s := range seen {
		requests[i] = shard.SpikeRequest(&shard.Spike{
			Namespace: s.Namespace,
			Policy:    s.Policy,
			Key:       s.Key,
			At:        limit.Time(s.End),
			Denials:   s.Denials,
			Mean:      s.Mean,
		})
	}
	for i, result := range d.decide(within, requests) {
		switch s := &seen[i]; {
		case result.Err != nil:
			if ctx.Err() == nil {
				d.logger.Warn("a spike could not be noted", "namespace", s.Namespace, "policy", s.Policy,
					"error", result.Err)
			}
		case result.Decision.Index != 0: // else it was told before
			d.metrics.Spike(s.Policy)
			d.logger.Warn("a key is denied far more often than before: stint keys top --by denials shows it",
				"namespace", s.Namespace, "policy", s.Policy, "denials", s.Denials, "mean", s.Mean)
		}
	}
}
