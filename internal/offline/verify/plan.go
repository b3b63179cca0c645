package verify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Plan describes the load of a run.
type Plan struct {
	Addresses []string    // API addresses of the nodes, host:port or URLs
	Token     string      // sent with every request; may be empty
	TLS       *tls.Config // for https:// addresses; nil means the system's authorities
	Targets   []Target    // keys take turns among them
	Leases    []Lease     // policies that are leased meanwhile
	Keys      int         // contended for at one time; a full one is replaced; 0 means 12
	Workers   int         // concurrent operations; 0 means 16
	// Rate is the operations per second of all workers; with 0, each worker continues as soon as it is answered.
	Rate     float64
	IDs      int           // percentage of operations with an idempotency id
	Deadline time.Duration // of one operation, over all its attempts; 0 means 2 s
	Settle   time.Duration // how long open questions are retried after the load; 0 means 30 s
	Seed     uint64
	Progress func(Progress) // called from one goroutine; may be nil
	Outage   func(Outage)   // called when an outage of a shard is over, for several shards concurrently; may be nil

	dial func(ctx context.Context, network, address string) (net.Conn, error) // nil means TCP
}

func (p Plan) withDefaults() Plan {
	p.Keys = cmp.Or(p.Keys, 12)
	p.Workers = cmp.Or(p.Workers, 16)
	p.Deadline = cmp.Or(p.Deadline, 2*time.Second)
	p.Settle = cmp.Or(p.Settle, 30*time.Second)
	addresses := make([]string, len(p.Addresses))
	for i, address := range p.Addresses {
		addresses[i] = urlOf(address)
	}
	p.Addresses = addresses
	return p
}

// memory is the longest time for which a denial of any target may be repeated.
func (p Plan) memory() (longest time.Duration) {
	for _, t := range p.Targets {
		longest = max(longest, t.Stale)
	}
	return longest
}

// urlOf adds a missing scheme.
func urlOf(address string) string {
	address = strings.TrimRight(address, "/")
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return address
}

func (p Plan) validate() error {
	switch {
	case len(p.Addresses) == 0:
		return errors.New("verify: no address to ask")
	case len(p.Targets) == 0:
		return errors.New("verify: no policy to ask")
	case p.Keys < 1 || p.Workers < 1 || p.Rate < 0 || p.IDs < 0 || p.IDs > 100:
		return errors.New("verify: a number of the plan makes no sense")
	}
	for _, t := range p.Targets {
		if t.Quota == 0 || t.Quota > quotaMax {
			return fmt.Errorf("verify: a quota of %d is not within 1..%d: policy %s", t.Quota, quotaMax, t.Policy)
		}
	}
	return nil
}

// quotaMax bounds the memory per key: one number for each unit.
const quotaMax = 1_000_000
