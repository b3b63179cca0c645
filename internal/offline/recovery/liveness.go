package recovery

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// dialTimeout bounds the wait for a node that may still run.
const dialTimeout = 3 * time.Second

// mustBeSilent refuses as long as a node answers: what it counts from now on would be missing in the backup, and
// admitted again by the cluster that is restored from it. nodes has their ids by address.
func (r *Recovery) mustBeSilent(ctx context.Context, nodes map[string]string) error {
	answers := r.config.Answers
	if answers == nil {
		answers = accepts
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var mu sync.Mutex
	var dialing sync.WaitGroup
	var heard []string
	for address, node := range nodes {
		dialing.Go(func() {
			if answers(ctx, address) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, fmt.Sprintf("node %s answers at %s", node, address))
			}
		})
	}
	dialing.Wait()
	if len(heard) > 0 { //mutant:recovers-beside-a-live-node
		slices.Sort(heard)
		return fmt.Errorf("the cluster is not stopped: %s. Stop its nodes first, "+
			"or let them go on without the lost ones (stint cluster remove-node)", strings.Join(heard, ", "))
	}
	return nil
}

func accepts(ctx context.Context, address string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
