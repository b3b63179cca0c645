package node

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/edge/connlimit"
)

// limits bounds the connections of each port, so that together they leave the disk its file descriptors.
type limits struct {
	shares connlimit.Shares
	api    *connlimit.Limit // includes gRPC's
	redis  *connlimit.Limit
}

// newLimits shares the file descriptors of this process out among its ports. The guard says whether clients need a
// token.
func newLimits(guard *auth.Guard, logger *slog.Logger, observer connlimit.Observer) (limits, error) {
	descriptors := connlimit.Descriptors()
	if descriptors < connlimit.Least {
		return limits{}, fmt.Errorf("%w: this process may open %d files, and needs %d: "+
			"raise the bound (ulimit -n, LimitNOFILE=)",
			ErrConfig, descriptors, connlimit.Least)
	}
	shares := connlimit.Share(descriptors)
	limit := func(port string, most int) *connlimit.Limit {
		return connlimit.New(connlimit.Config{Port: port, Most: most, Logger: logger, Observer: observer, Now: time.Now,
			AsksForProof: func() bool { return guard.Set().Required }})
	}
	return limits{shares: shares, api: limit("api", shares.API), redis: limit("redis", shares.Redis)}, nil
}
