package main

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// replicasOf connects to the replicas that a Redis reports as online.
func replicasOf(ctx context.Context, c *redis.Client) (replicas []*redis.Client) {
	about := c.InfoMap(ctx).Val()["Replication"]
	for n := 0; about["slave"+strconv.Itoa(n)] != ""; n++ {
		fields := map[string]string{}
		for field := range strings.SplitSeq(about["slave"+strconv.Itoa(n)], ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		if fields["state"] == "online" {
			replicas = append(replicas,
				redis.NewClient(&redis.Options{Addr: net.JoinHostPort(fields["ip"], fields["port"])}))
		}
	}
	return replicas
}

// cpuOfRedis is the processor time of a Redis and of its replicas that answer, in seconds.
func cpuOfRedis(ctx context.Context, c *redis.Client) (sum float64) {
	about := c.InfoMap(ctx).Val()["CPU"]
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, _ := strconv.ParseFloat(about[name], 64)
		sum += seconds
	}
	for _, replica := range replicasOf(ctx, c) {
		sum += cpuOfRedis(ctx, replica)
		replica.Close()
	}
	return sum
}

// durability says what an acknowledgement of a Redis is worth.
func durability(ctx context.Context, c *redis.Client) string {
	settings, err := c.ConfigGet(ctx, "append*").Result()
	switch {
	case err != nil: // some hosted services forbid it
		return "durability not known"
	case settings["appendonly"] != "yes":
		return "no append-only file"
	}
	return "appendfsync " + settings["appendfsync"]
}
