package node

import (
	"context"
	"net"
)

// grpcServer is the result of api.NewGRPC.
type grpcServer interface {
	Serve(net.Listener) error
	GracefulStop()
	Stop()
}

// grpcDoor is the port for gRPC alone.
type grpcDoor struct {
	listener net.Listener
	server   grpcServer // nil: nothing is served yet
}

// stop tells every client to leave and waits for their calls. A call that is on its way when its client is told was not
// begun, and a gRPC client knows that. When ctx ends first the connections are closed.
func (d *grpcDoor) stop(ctx context.Context) {
	if d == nil {
		return
	}
	left := context.AfterFunc(ctx, d.server.Stop)
	d.server.GracefulStop()
	left()
}

func (d *grpcDoor) close() error {
	if d == nil {
		return nil
	}
	return d.listener.Close()
}
