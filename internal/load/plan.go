package load

import (
	"fmt"
	"net/url"
	"time"
)

// Protocol is what the callers speak.
type Protocol string

// The protocols.
const (
	JSON    Protocol = "json"    // Connect's JSON over HTTP/1.1: what curl speaks
	Connect Protocol = "connect" // Connect's binary messages over HTTP/1.1
	GRPC    Protocol = "grpc"    // gRPC over HTTP/2 without TLS
)

// Plan says what to ask, how often and for how long.
type Plan struct {
	Addresses     []string      // base URLs of the nodes, as in http://127.0.0.1:7400; the callers spread evenly over them
	Protocol      Protocol      // "": json
	Namespace     string        // "": the server's default
	Policy        string        // required
	Tier          string        // "": the policy's default tier
	Callers       int           // calls under way at once; 0: 64
	Connections   int           // grpc: HTTP/2 connections that the callers share; 0: 2, at most one per caller; at least one per address
	Keys          int           // keys to spread over, chosen at random; 0: 1, one hot key
	KeyPrefix     string        // the keys are KeyPrefix followed by seven digits
	Fresh         bool          // nobody has used these keys before: what was not admitted is audited too
	Batch         int           // checks per call: CheckBatch above 1; 0: 1
	DeniedPercent int           // share of the checks that go to keys drained before the run
	Cost          uint64        // units a check spends; 0: 1
	Entries       int           // keys that a check names, all or nothing; 0: 1. The first of them is audited
	Together      bool          // a {tag} places the keys of a check on one shard; else chance does
	Duration      time.Duration // 0: until Count; both 0: 10 s
	Count         uint64        // checks in all; 0: until Duration
	Rate          float64       // open loop: calls per second; 0: closed loop
	Timeout       time.Duration // of one call; 0: 10 s
}

const (
	keysMax    = 9_999_999 // seven digits
	batchMax   = 1_000     // the server's limit
	callersMax = 16_384
)

// withDefaults fills in the documented zero values.
func (p Plan) withDefaults() Plan {
	p.Protocol = Protocol(orDefault(string(p.Protocol), string(JSON)))
	p.Callers = orDefault(p.Callers, 64)
	p.Connections = max(min(orDefault(p.Connections, 2), p.Callers), len(p.Addresses))
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

// Validate names the first field that makes no sense. Run refuses such a plan with the same error.
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
	if p.Rate < 0 || p.Duration < 0 || p.Timeout < 0 {
		return fmt.Errorf("rate, duration and timeout cannot be negative")
	}
	return nil
}

func (p Plan) validateTarget() error {
	if p.Policy == "" {
		return fmt.Errorf("policy: name the policy to ask")
	}
	if len(p.Addresses) == 0 {
		return fmt.Errorf("address: name a server to ask")
	}
	for _, address := range p.Addresses {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("address: %q is not a URL such as http://127.0.0.1:7400", address)
		}
	}
	switch p.Protocol {
	case JSON, Connect, GRPC:
		return nil
	}
	return fmt.Errorf("protocol: %q is none of json, connect, grpc", p.Protocol)
}

// drainedKeys is how many keys are drained before the run. They follow the others in number.
func (p Plan) drainedKeys() int {
	if p.DeniedPercent == 0 {
		return 0
	}
	return min(p.Keys, 1_000)
}
