package api

import (
	"context"
	"slices"

	"github.com/stint-io/stint/shard"
)

// Decider decides requests, wherever their keys live. It may be called concurrently.
type Decider interface {
	// Decide returns one result for each request, in their order. If ctx ends before the decision, the result says
	// whether the request may have been counted.
	Decide(ctx context.Context, requests []shard.Request) []shard.Result
}

func decide(ctx context.Context, decider Decider, r shard.Request) (*shard.Decision, error) {
	result := &decider.Decide(ctx, []shard.Request{r})[0]
	if result.Err != nil {
		return nil, result.Err
	}
	return &result.Decision, nil
}

// shardsAtOnce bounds memory: one shard answers with up to a megabyte.
const shardsAtOnce = 8

// everyShard decides a request about each shard, some at the same time, and passes on the decisions in the order of the
// shards. It ends at the first error; each may have been called before.
func everyShard(
	ctx context.Context, decider Decider, shards int, request func(shard.ID) shard.Request, each func(*shard.Decision),
) error {
	requests := make([]shard.Request, shards)
	for id := range requests {
		requests[id] = request(shard.ID(id))
	}
	for some := range slices.Chunk(requests, shardsAtOnce) {
		for _, result := range decider.Decide(ctx, some) {
			if result.Err != nil {
				return result.Err
			}
			each(&result.Decision)
		}
	}
	return nil
}
