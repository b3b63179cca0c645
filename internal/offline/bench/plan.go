package bench

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Protocol is the protocol of the callers.
type Protocol string

// The protocols.
const (
	JSON    Protocol = "json"    // Connect's JSON over HTTP/1.1, as with curl
	Connect Protocol = "connect" // Connect's binary messages over HTTP/1.1
	GRPC    Protocol = "grpc"    // gRPC over HTTP/2 without TLS
	Stream  Protocol = "stream"  // CheckStream over gRPC: a stream for each caller, a message for each call
	Client  Protocol = "client"  // the Go client: the callers share one, which batches concurrent checks
	Redis   Protocol = "redis"   // RESP2, one connection per caller; a batch is a pipeline
)

// Work is the kind of check over the Redis protocol.
type Work string

// The kinds of work.
const (
	Check  Work = "check"  // STINT.CHECK of the policy; the only kind in the other protocols
	Incr   Work = "incr"   // INCR: a bare counter
	Window Work = "window" // a fixed window. stint: STINT.CHECK of the policy; Redis: the usual script
	Bucket Work = "bucket" // a token bucket that is never empty. stint: CL.THROTTLE; Redis: the usual script
)

// Plan says which checks to send, how many and for how long.
type Plan struct {
	Addresses     []string      // base URLs of the nodes, as in http://127.0.0.1:7400; the callers spread evenly over them
	Token         string        // sent with every request to stint; "": none
	TLS           *tls.Config   // for https:// addresses, and then for GRPC and stint's Redis ports too; nil: the system's authorities
	Protocol      Protocol      // "": json
	GRPC          []string      // protocols grpc and stream: HOST:PORT of the nodes' ports for gRPC alone; none: Addresses
	Redis         []string      // protocol redis: HOST:PORT of the nodes' Redis ports; the callers spread evenly over them
	Work          Work          // protocol redis; "": check
	IsRedis       bool          // the server at Redis is a Redis, not stint: Addresses and Policy are not needed
	Wait          int           // IsRedis: WAIT for that many replicas, once after each call
	Namespace     string        // "": the server's default
	Policy        string        // required, except for work incr and bucket
	Tier          string        // "": the policy's default tier
	Callers       int           // calls under way at once; 0: 64
	Connections   int           // grpc, stream: HTTP/2 connections that the callers share; 0: 2, at most one per caller; at least one per address
	Keys          int           // number of keys, chosen at random; 0: 1, one hot key
	Walk          bool          // takes the keys in turn instead of at random: a Count of Keys uses each once
	KeyPrefix     string        // the keys are KeyPrefix followed by seven digits
	Fresh         bool          // the keys were never used before: the audit also finds units that should have been admitted
	Batch         int           // checks per call: CheckBatch above 1; 0: 1
	DeniedPercent int           // percentage of the checks that go to keys drained before the run
	Cost          uint64        // units per check; 0: 1
	Entries       int           // keys per check, all or nothing; 0: 1. The first is audited
	Together      bool          // a {tag} places the keys of a check on one shard; otherwise their shards are random
	Duration      time.Duration // 0: until Count; both 0: 10 s
	Count         uint64        // checks in total; 0: until Duration
	Rate          float64       // open loop: calls per second; 0: closed loop
	Timeout       time.Duration // per call; 0: 10 s
}

const (
	keysMax    = 10_000_000 // seven digits, including the drained keys
	batchMax   = 1_000      // the server's limit
	callersMax = 16_384
	streamsMax = 1_000 // per connection: the server allows 1,024
)

// withDefaults fills in the documented zero values.
func (p Plan) withDefaults() Plan {
	p.Protocol = orDefault(p.Protocol, JSON)
	p.Work = orDefault(p.Work, Check)
	p.Callers = orDefault(p.Callers, 64)
	p.Connections = max(min(orDefault(p.Connections, 2), p.Callers), len(p.Addresses))
	if p.Protocol == Stream { // streams stay open for the run, so one too many would wait forever
		p.Connections = max(p.Connections, (p.Callers+streamsMax-1)/streamsMax)
	}
	p.Keys = orDefault(p.Keys, 1)
	p.Batch = orDefault(p.Batch, 1)
	p.Cost = orDefault(p.Cost, 1)
	p.Entries = orDefault(p.Entries, 1)
	p.Timeout = orDefault(p.Timeout, 10*time.Second)
	if p.Duration == 0 && p.Count == 0 {
		p.Duration = 10 * time.Second
	}
	return p
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// Validate returns an error that names the first invalid field. Run refuses such a plan with the same error.
func (p Plan) Validate() error {
	p = p.withDefaults()
	if err := p.validateTarget(); err != nil {
		return err
	}
	for _, field := range []struct {
		name          string
		value, lo, hi int
	}{
		{"callers", p.Callers, 1, callersMax},
		{"connections", p.Connections, 1, callersMax},
		{"keys", p.Keys, 1, keysMax},
		{"batch", p.Batch, 1, batchMax},
		{"denied", p.DeniedPercent, 0, 100},
		{"entries", p.Entries, 1, 9},
	} {
		if field.value < field.lo || field.value > field.hi {
			return fmt.Errorf("%s: %d is not within %d..%d", field.name, field.value, field.lo, field.hi)
		}
	}
	if p.Cost > 1<<40 {
		return fmt.Errorf("cost: %d is more than a request may spend (2^40)", p.Cost)
	}
	if p.Keys+p.drainedKeys() > keysMax {
		return fmt.Errorf("keys: %d and %d that are drained are more than %d", p.Keys, p.drainedKeys(), keysMax)
	}
	if p.Rate < 0 || p.Duration < 0 || p.Timeout < 0 {
		return fmt.Errorf("rate, duration and timeout cannot be negative")
	}
	return nil
}

func (p Plan) validateTarget() error {
	if p.Policy == "" && p.asksPolicy() {
		return fmt.Errorf("policy: name the policy to ask")
	}
	if len(p.Addresses) == 0 && (p.Protocol != Redis || p.asksPolicy()) {
		return fmt.Errorf("address: name a server to ask")
	}
	for _, address := range p.Addresses {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("address: %q is not a URL such as http://127.0.0.1:7400", address)
		}
	}
	switch p.Protocol {
	case JSON, Connect, GRPC, Stream, Client:
		if p.Work != Check || p.IsRedis {
			return fmt.Errorf("work: protocol %s knows only %s", p.Protocol, Check)
		}
		return nil
	case Redis:
		return p.validateRedis()
	}
	return fmt.Errorf("protocol: %q is none of json, connect, grpc, stream, client, redis", p.Protocol)
}

// sharesConnections reports whether the callers share connections of grpc-go.
func (p Plan) sharesConnections() bool { return p.Protocol == GRPC || p.Protocol == Stream }

// isSecure reports whether stint's ports speak TLS: a node has it on all of them or on none.
func (p Plan) isSecure() bool {
	return !p.IsRedis && len(p.Addresses) > 0 && strings.HasPrefix(p.Addresses[0], "https://")
}

// asksPolicy reports whether the work uses a policy of the server.
func (p Plan) asksPolicy() bool { return !p.IsRedis && (p.Work == Check || p.Work == Window) }

func (p Plan) validateRedis() error {
	if len(p.Redis) == 0 {
		return fmt.Errorf("redis address: name a Redis port to ask, as in 127.0.0.1:6379")
	}
	for _, address := range p.Redis {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("redis address: %q is not HOST:PORT, as in 127.0.0.1:6379", address)
		}
	}
	switch {
	case !slices.Contains([]Work{Check, Incr, Window, Bucket}, p.Work):
		return fmt.Errorf("work: %q is none of check, incr, window, bucket", p.Work)
	case p.IsRedis && p.Work == Check:
		return fmt.Errorf("work: a Redis knows incr, window and bucket, not %s", Check)
	case p.Wait < 0 || p.Wait > 0 && !p.IsRedis:
		return fmt.Errorf("wait: is for a Redis; stint never answers before a majority has it on disk")
	case p.DeniedPercent > 0 && !p.asksPolicy():
		return fmt.Errorf("denied: work %s has no limit that could be drained", p.Work)
	case p.Cost != 1 && !p.asksPolicy():
		return fmt.Errorf("cost: work %s spends one unit", p.Work)
	case p.Entries > 1 || p.Tier != "" || p.Namespace != "":
		return fmt.Errorf("entries, tier and namespace: the Redis protocol has no word for them")
	}
	return nil
}

// drainedKeys is the number of keys drained before the run. Their numbers follow the others'.
func (p Plan) drainedKeys() int {
	if p.DeniedPercent == 0 {
		return 0
	}
	return min(p.Keys, 1_000)
}
