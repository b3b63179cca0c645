package node

import (
	"context"
	"fmt"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/shard"
)

// serveRedis serves the Redis protocol, if a port is open for it.
func (n *Node) serveRedis() {
	if n.redisListener == nil {
		return
	}
	n.redis = redis.NewServer(redis.Config{
		Router:         n.router,
		Parents:        n.withParents,
		Copies:         n.copies,
		Level:          n.level,
		Ready:          n.Ready,
		Observer:       n.metrics,
		Logger:         n.config.Logger,
		Now:            n.config.World.Now,
		Version:        n.config.Version,
		RequestTimeout: n.config.RequestTimeout,

		ConnectionsMost: n.limits.shares.Redis,
	})
	n.serving.Go(func() {
		if err := n.redis.Serve(n.limits.redisDoor(n.redisListener)); err != nil && !n.stopping.Load() {
			n.fail(fmt.Errorf("serving the Redis protocol: %w", err))
		}
	})
}

// stopServingRedis stops accepting, answers the requests already received, and then closes their connections.
func (n *Node) stopServingRedis(ctx context.Context) {
	if n.redisListener == nil {
		return
	}
	n.redisListener.Close()
	if n.redis != nil {
		n.redis.Close(ctx)
	}
}

// withParents lists the entries that a check of one entry decides together, by the policies that this node knows.
func (n *Node) withParents(e shard.Entry) (together []shard.Entry, revision uint64, err error) {
	if r := n.known.revision(); r != nil {
		together, err = api.Parents(r.Set, e)
		return together, r.Version, err
	}
	return nil, 0, nil
}

// copies is how many nodes besides the owner have every reply on disk before it is sent: that of the shard with the fewest.
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

// RedisAddr is the address of the Redis protocol; "" when it is not served.
func (n *Node) RedisAddr() string {
	if n.redisListener == nil {
		return ""
	}
	return n.redisListener.Addr().String()
}
