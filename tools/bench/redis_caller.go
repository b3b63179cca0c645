package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stint-io/stint/internal/offline/bench"
)

// redisCaller is one caller. When a port refuses connections, it goes on to the next one.
type redisCaller struct {
	port *redisPort
	at   int // of the current client, modulo their number
}

// Close implements bench.Caller.
func (c *redisCaller) Close() {}

// Check implements bench.Caller.
func (c *redisCaller) Check(keys []uint32, fates []bench.Fate) *bench.Failure {
	ctx := context.Background()
	var answers []redis.Cmder
	for range c.port.clients {
		pipe := c.port.clients[c.at%len(c.port.clients)].Pipeline()
		for _, key := range keys {
			pipe.Do(ctx, c.port.command(c.port.plan.KeyName(key))...)
		}
		if c.port.wait > 0 {
			pipe.Do(ctx, "WAIT", c.port.wait, 0)
		}
		var err error
		if answers, err = pipe.Exec(ctx); !bench.NeverSent(err) {
			break
		}
		c.at++
	}
	var first *bench.Failure
	for i := range fates {
		answer := answers[i].(*redis.Cmd)
		if fates[i] = c.port.fateOf(answer); fates[i] >= bench.Failed && first == nil {
			first = failureOf(answer.Err())
		}
	}
	if c.port.wait > 0 {
		if replicas, err := answers[len(keys)].(*redis.Cmd).Int(); err != nil || replicas < c.port.wait {
			for i := range fates {
				fates[i] = bench.Unknown
			}
			return &bench.Failure{Code: "wait", Message: fmt.Sprintf("WAIT answered %d (%v)", replicas, err)}
		}
	}
	return first
}

func failureOf(err error) *bench.Failure {
	var refused redis.Error
	if errors.As(err, &refused) {
		word, _, _ := strings.Cut(err.Error(), " ")
		return &bench.Failure{Code: strings.ToLower(word), Message: err.Error()}
	}
	return &bench.Failure{Code: bench.ConnectionLost, Message: err.Error()}
}
