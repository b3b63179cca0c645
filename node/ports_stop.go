package node

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/stint-io/stint/internal/sleep"
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
		return errors.Join(p.listener.Close(), closePort(p.grpcPort))
	}
	p.api.Drain()
	listeners := p.clientListeners()
	for _, listener := range listeners {
		if !deafen(listener) {
			listener.Close()
		}
	}
	p.awaitQuiet(ctx)
	p.stopRedis(ctx)
	p.stopGRPC(ctx)
	if len(listeners) > 1 { // the Redis and gRPC ports took a while to stop
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

// stopGRPC tells every client of the port for gRPC alone to leave and waits for their calls. A call that is on its way
// when its client is told was not begun, and a gRPC client knows that. When ctx ends first the connections are closed.
func (p *ports) stopGRPC(ctx context.Context) {
	if p.grpc == nil {
		return
	}
	left := context.AfterFunc(ctx, p.grpc.Stop)
	p.grpc.GracefulStop()
	left()
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

// closePort closes a listener that nothing has taken over, if there is one.
func closePort(listener net.Listener) error {
	if listener == nil {
		return nil
	}
	return listener.Close()
}

// awaitQuiet waits for at least 200 ms, until nothing has come for that long on connections of the API's port. A
// connection that seems idle may have a request on its way, and closing it would leave its caller in doubt. Time is
// counted in ticks that this goroutine took part in: while the machine is too busy to run it, no silence is counted.
func (p *ports) awaitQuiet(ctx context.Context) {
	last, quiet := p.late.Load(), 0
	for ticks := 0; quiet < quietTicks && ticks < 10*quietTicks && sleep.For(ctx, quietTick); ticks++ {
		quiet++
		if now := p.late.Load(); now != last {
			last, quiet = now, 0
		}
	}
}

const (
	quietTick  = 10 * time.Millisecond
	quietTicks = 20
)
