package node

import (
	"context"
	"errors"
	"net"
	"time"
)

// lameDuck is how long a stopping node keeps answering. Clients with a connection learn that they must leave before it is
// closed, and clients that only look at /readyz have time to look. Where there is no other node to go to (lameDuckAlone), it
// only spares clients the doubt whether a request on a closed connection was counted.
const lameDuck, lameDuckAlone = time.Second, 250 * time.Millisecond

// Close stops the node in order; the package's manual gives the reasons. When ctx ends first it stops anyway, and what is
// left is answered with its fate. It must not be called after Done yielded an ErrDisk.
func (n *Node) Close(ctx context.Context) error {
	n.stopping.Store(true)
	var errs []error
	began, patience := n.config.World.Now(), lameDuckAlone
	if n.hasJoined() && n.clustered() {
		patience = lameDuck
		n.probe.Kick() // the others learn that this node stops
		n.giveAway(ctx)
	}
	if n.server != nil {
		n.waitOut(ctx, patience-n.config.World.Now().Sub(began))
	}
	if patience == lameDuck {
		n.giveAway(ctx) // shards that came back meanwhile
	}
	n.cancel()
	n.steering.Wait()
	n.tasks.wait()
	errs = append(errs, n.stopServing(ctx))
	if n.router != nil {
		n.router.Close()
	}
	if n.port != nil {
		n.port.DrainHops()
	}
	if n.hop != nil {
		n.hop.Close()
	}
	each(n.replicas(), func(r *replica) { n.closeReplica(ctx, r) })
	if n.probe != nil {
		n.probe.Stop()
	}
	if n.gossip != nil {
		n.gossip.Stop()
	}
	switch {
	case n.port != nil:
		errs = append(errs, n.port.Close())
	case n.peers != nil:
		errs = append(errs, n.peers.Close())
	}
	if n.stores != nil {
		errs = append(errs, n.stores.Close())
	}
	return errors.Join(errs...)
}

// clustered reports whether another node could serve in this node's place.
func (n *Node) clustered() bool {
	t := n.known.newest()
	return t.Table != nil && len(t.Nodes) > 1
}

func (n *Node) waitOut(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// stopServing stops new connections, waits until those already begun are accepted, and lets them finish.
func (n *Node) stopServing(ctx context.Context) error {
	if n.listener == nil {
		n.stopServingRedis(ctx)
		return nil
	}
	if n.server == nil {
		n.stopServingRedis(ctx)
		return errors.Join(n.listener.Close(), n.grpc.close())
	}
	n.api.Drain()
	doors := n.doors()
	for _, door := range doors {
		if !deafen(door) {
			door.Close()
		}
	}
	n.awaitQuiet(ctx)
	n.stopServingRedis(ctx)
	n.grpc.stop(ctx)
	if len(doors) > 1 { // the Redis and gRPC ports took a while to stop
		n.awaitQuiet(ctx)
	}
	n.listener.Close() // Serve ends, and closes the listener itself too
	n.serving.Wait()
	var err error
	if n.server.Shutdown(ctx) != nil { // ctx has ended: the actors still give every request its fate
		err = n.server.Close()
	}
	n.api.Wait()
	return err
}

// doors lists the listeners of the clients' ports.
func (n *Node) doors() []net.Listener {
	doors := []net.Listener{n.listener}
	if n.redisListener != nil {
		doors = append(doors, n.redisListener)
	}
	if n.grpc != nil {
		doors = append(doors, n.grpc.listener)
	}
	return doors
}

// awaitQuiet waits for at least 200 ms, until nothing has come for that long on connections of the API's port. A connection
// that seems idle may have a request on its way, and closing it would leave its caller in doubt. Time is counted in ticks
// that this goroutine took part in: while the machine is too busy to run it, no silence is counted.
func (n *Node) awaitQuiet(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last, quiet := n.late.Load(), 0
	for ticks := 0; quiet < quietTicks && ticks < 10*quietTicks; ticks++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		quiet++
		if now := n.late.Load(); now != last {
			last, quiet = now, 0
		}
	}
}

const quietTicks = 20
