package node

import "net"

// grpcServer is the result of api.NewGRPC.
type grpcServer interface {
	Serve(net.Listener) error
	GracefulStop()
	Stop()
}
