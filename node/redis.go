package node

import (
	"context"
	"fmt"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/shard"
)

// serveRedis answers the Redis protocol, if somebody is to.
func (n *Node) serveRedis() {
	if n.redisListener == nil {
		return
	}
	n.redis = redis.NewServer(redis.Config{
		Router:         n.router,
		Parents:        n.withParents,
		Copies:         n.copies,
		Ready:          n.Ready,
		Observer:       n.metrics,
		Logger:         n.config.Logger,
		Now:            n.config.World.Now,
		Version:        n.config.Version,
		RequestTimeout: n.config.RequestTimeout,
	})
	n.serving.Go(func() {
		if err := n.redis.Serve(n.redisListener); err != nil && !n.stopping.Load() {
			n.fail(fmt.Errorf("serving the Redis protocol: %w", err))
		}
	})
}

// stopServingRedis closes the door, lets those inside have their answers, and then closes their connections.
func (n *Node) stopServingRedis(ctx context.Context) {
	if n.redisListener == nil {
		return
	}
	n.redisListener.Close()
	if n.redis != nil {
		n.redis.Close(ctx)
	}
}

// withParents is what a check of one entry decides together, by the policies that this node knows.
func (n *Node) withParents(e shard.Entry) ([]shard.Entry, error) {
	if r := n.known.revision(); r != nil {
		return api.Parents(r.Set, e)
	}
	return nil, nil
}

// copies is how many nodes beside its owner have every answer on disk before it is given: of the shard with the fewest.
func (n *Node) copies() (fewest int) {
	t := n.known.newest()
	if t.Table == nil {
		return 0
	}
	for i := range t.Groups {
		if others := len(t.Groups[i].Voters()) / 2; i == 0 || others < fewest {
			fewest = others
		}
	}
	return fewest
}

// RedisAddr is the address on which the Redis protocol is spoken; "" nowhere.
func (n *Node) RedisAddr() string {
	if n.redisListener == nil {
		return ""
	}
	return n.redisListener.Addr().String()
}
