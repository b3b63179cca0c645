package node

import (
	"context"
	"errors"
	"net"
	"time"
)

// stop stops new connections, waits until those already begun are accepted, and lets them finish.
func (p *ports) stop(ctx context.Context) error {
	if p.listener == nil {
		p.stopRedis(ctx)
		p.serving.Wait()
		return nil
	}
	if p.server == nil {
		p.stopRedis(ctx)
		return errors.Join(p.listener.Close(), p.grpc.close())
	}
	p.api.Drain()
	doors := p.doors()
	for _, door := range doors {
		if !deafen(door) {
			door.Close()
		}
	}
	p.awaitQuiet(ctx)
	p.stopRedis(ctx)
	p.grpc.stop(ctx)
	if len(doors) > 1 { // the Redis and gRPC ports took a while to stop
		p.awaitQuiet(ctx)
	}
	err := p.local.stop(ctx)
	p.listener.Close() // Serve ends, and closes the listener itself too
	p.serving.Wait()
	if p.server.Shutdown(ctx) != nil { // ctx has ended: the actors still give every request its fate
		err = errors.Join(err, p.server.Close())
	}
	p.api.Wait()
	return err
}

// stopRedis stops accepting, answers the requests already received, and then closes their connections.
func (p *ports) stopRedis(ctx context.Context) {
	if p.redisPort == nil {
		return
	}
	p.redisPort.Close()
	if p.redis != nil {
		p.redis.Close(ctx)
	}
}

// closePeers closes the listener of the peer port, which no peer port has taken over.
func (p *ports) closePeers() error {
	if p.peers == nil {
		return nil
	}
	return p.peers.Close()
}

// doors lists the listeners of the clients' ports.
func (p *ports) doors() []net.Listener {
	doors := []net.Listener{p.listener}
	if p.redisPort != nil {
		doors = append(doors, p.redisPort)
	}
	if p.grpc != nil {
		doors = append(doors, p.grpc.listener)
	}
	return doors
}

// awaitQuiet waits for at least 200 ms, until nothing has come for that long on connections of the API's port. A
// connection that seems idle may have a request on its way, and closing it would leave its caller in doubt. Time is
// counted in ticks that this goroutine took part in: while the machine is too busy to run it, no silence is counted.
func (p *ports) awaitQuiet(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	last, quiet := p.late.Load(), 0
	for ticks := 0; quiet < quietTicks && ticks < 10*quietTicks; ticks++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		quiet++
		if now := p.late.Load(); now != last {
			last, quiet = now, 0
		}
	}
}

const quietTicks = 20
