package node

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/api/redis"
	"github.com/stint-io/stint/internal/connlimit"
)

// limits bounds the connections of each port, so that together they leave the disk its file descriptors.
type limits struct {
	shares connlimit.Shares
	api    *connlimit.Limit // includes gRPC's
	redis  *connlimit.Limit
}

// newLimits shares the file descriptors of this process out among its ports.
func newLimits(logger *slog.Logger, observer connlimit.Observer) (limits, error) {
	descriptors := connlimit.Descriptors()
	if descriptors < connlimit.Least {
		return limits{}, fmt.Errorf("%w: this process may open %d files, and needs %d: raise the bound (ulimit -n, LimitNOFILE=)",
			ErrConfig, descriptors, connlimit.Least)
	}
	shares := connlimit.Share(descriptors)
	limit := func(port string, most int) *connlimit.Limit {
		return connlimit.New(connlimit.Config{Port: port, Most: most, Logger: logger, Observer: observer, Now: time.Now})
	}
	return limits{shares: shares, api: limit("api", shares.API), redis: limit("redis", shares.Redis)}, nil
}

func (l *limits) apiDoor(listener net.Listener) net.Listener {
	return l.api.Listen(listener, connlimit.Refusal{Text: api.Refusal, AfterRequest: true})
}

// grpcDoor refuses without a text: a gRPC client takes anything that is not HTTP/2 for a broken connection, as it does a
// closed one.
func (l *limits) grpcDoor(listener net.Listener) net.Listener {
	return l.api.Listen(listener, connlimit.Refusal{})
}

func (l *limits) redisDoor(listener net.Listener) net.Listener {
	return l.redis.Listen(listener, connlimit.Refusal{Text: redis.Refusal})
}
