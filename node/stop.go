package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

// lameDuck is how long a stopping node keeps answering. Clients with a connection learn that they must leave before it
// is closed, and clients that only look at /readyz have time to look. Where there is no other node to go to
// (lameDuckAlone), it only spares clients the doubt whether a request on a closed connection was counted.
const lameDuck, lameDuckAlone = time.Second, 250 * time.Millisecond

// lameDuckLeft is the same for a node that has left its cluster. No operator waits for it, and its load balancer was
// not told: one that looks at /readyz every two seconds, and believes the second look, must have time to. lingerMost
// has to be longer.
const lameDuckLeft = 5 * time.Second

// Close stops the node in order; the package's manual gives the reasons. If ctx ends first, it no longer waits for
// requests: those that are left are answered with their fate. It must not be called after Done yielded an ErrDisk.
func (n *Node) Close(ctx context.Context) error {
	n.stopping.Store(true)
	if n.router == nil { // the start failed before there was anything to stop but ports and the data directory
		n.cancel()
		return errors.Join(n.ports.stop(ctx), closePort(n.ports.peers), n.dir.close())
	}
	began, patience := n.config.World.Now(), lameDuckAlone
	handsOver := n.peers.hasJoined() && n.view.clustered()
	if handsOver {
		patience = lameDuck
		n.peers.ask() // the others learn that this node stops
		n.handover.giveAllAway(ctx)
	}
	if n.view.hasLeft() {
		patience = lameDuckLeft
	}
	if n.ports.servesAPI() {
		sleep.For(ctx, patience-n.config.World.Now().Sub(began))
	}
	if handsOver {
		n.handover.giveAllAway(ctx) // shards that came back meanwhile
	}
	n.cancel()
	n.running.Wait()
	n.tasks.wait()
	errs := []error{n.ports.stop(ctx)}
	n.router.Close()
	n.peers.drainHops()
	n.hop.Close()
	each(n.replicas.all(), func(r *replica) { n.opener.close(ctx, r) })
	n.peers.leave()
	if n.peers.port != nil {
		errs = append(errs, n.peers.port.Close())
	} else {
		errs = append(errs, closePort(n.ports.peers))
	}
	n.decisionLog.Close(decisionLogWithin)
	errs = append(errs, n.tokens.keepUses(0), n.dir.close())
	n.closeTracer(ctx)
	return errors.Join(errs...)
}

// each calls do for every element concurrently, and waits.
func each[T any](all []T, do func(T)) {
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() { do(one) })
	}
	group.Wait()
}
