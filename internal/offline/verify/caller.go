package verify

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/offline/bench"
)

// caller sends requests to the nodes, as JSON. It may be used concurrently.
type caller struct {
	http   *http.Client
	limits []stintv1connect.LimitServiceClient // by node
}

// newCaller needs addresses with a scheme, which withDefaults adds.
func newCaller(p Plan) *caller {
	if p.dial == nil {
		p.dial = (&net.Dialer{Timeout: time.Second}).DialContext
	}
	c := &caller{http: &http.Client{Transport: bench.Proving(p.Token, &http.Transport{
		MaxIdleConnsPerHost: p.Workers + 1, DisableCompression: true, TLSClientConfig: p.TLS.Clone(),
		DialContext: p.dial})}}
	for _, address := range p.Addresses {
		c.limits = append(c.limits, stintv1connect.NewLimitServiceClient(c.http, address, connect.WithProtoJSON()))
	}
	return c
}

func (c *caller) close() { c.http.CloseIdleConnections() }

// check sends one check to one node, once.
func (c *caller) check(ctx context.Context, node int, k *key, id string, mode stintv1.Mode) answer {
	reply, err := c.limits[node].Check(ctx, connect.NewRequest(&stintv1.CheckRequest{
		Entries: k.entries(), IdempotencyId: id, Mode: mode}))
	if err != nil {
		return failed(err)
	}
	d := reply.Msg.GetDecision()
	if len(d.GetLimits()) != 1 || len(d.GetPositions()) != 1 {
		return answer{fate: wrong, message: fmt.Sprintf("a decision with %d limits and %d positions, want one of each",
			len(d.GetLimits()), len(d.GetPositions()))}
	}
	p := d.Positions[0]
	a := answer{fate: denied, used: d.Limits[0].Used, quota: d.Limits[0].Quota, at: d.DecidedAt.AsTime().UnixMicro(),
		place: place{p.Shard, p.Epoch, p.Seq}, replayed: d.Replayed, id: d.DecisionId}
	if d.Allowed {
		a.fate = admitted
	}
	return a
}

// used reads a counter.
func (c *caller) used(ctx context.Context, node int, k *key) (uint64, error) {
	reply, err := c.limits[node].Get(ctx, connect.NewRequest(&stintv1.GetRequest{Entries: k.entries()}))
	if err != nil {
		return 0, err
	}
	if len(reply.Msg.Limits) != 1 {
		return 0, fmt.Errorf("%d limits, want one", len(reply.Msg.Limits))
	}
	return reply.Msg.Limits[0].Used, nil
}
