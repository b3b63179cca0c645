package node

import (
	"context"
	"errors"
	"net"
	"time"
)

// lameDuck is how long a node goes on answering that is told to stop, so that clients with a connection to it hear that
// they must leave before it is closed, and those who only look at /readyz have looked. Where there is nobody to go to,
// it only spares clients the doubt whether a request on a closed connection was counted.
const lameDuck, lameDuckAlone = time.Second, 250 * time.Millisecond

// Close stops in order; the reasons are in the package's manual. When ctx ends first it stops anyway, and what is left
// is answered with its fate. It must not be called after Done yielded an ErrDisk.
func (n *Node) Close(ctx context.Context) error {
	n.stopping.Store(true)
	var errs []error
	began, patience := n.config.World.Now(), lameDuckAlone
	if n.hasJoined() && n.clustered() {
		patience = lameDuck
		n.pulse.Kick() // the others learn that we stop
		n.giveAway(ctx)
	}
	if n.server != nil {
		n.waitOut(ctx, patience-n.config.World.Now().Sub(began))
	}
	if patience == lameDuck {
		n.giveAway(ctx) // what came back meanwhile
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
	if n.pulse != nil {
		n.pulse.Stop()
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

// clustered tells whether somebody else could serve what this node does.
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

// stopServing shuts the doors, waits until those who were already on the threshold are inside, and lets them finish.
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
	if len(doors) > 1 { // which took a while
		n.awaitQuiet(ctx)
	}
	n.listener.Close() // Serve ends, and so does its own closing of it
	n.serving.Wait()
	var err error
	if n.server.Shutdown(ctx) != nil { // out of patience: the actors still give every request its fate
		err = n.server.Close()
	}
	n.api.Wait()
	return err
}

// doors are where clients come in.
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

// awaitQuiet waits for 200 ms at least, and until nothing has come for so long on connections of the API's port. A
// connection that seems idle may have a request on its way, and closing it would leave its caller in doubt. Time is counted
// in ticks that this goroutine took part in: what comes while the machine is too busy to run us is not taken for silence.
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
