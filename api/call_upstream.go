package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// passing returns the registry for procedures that an edge leaves to the nodes of its cluster: a copy that shares all
// maps. On a node it registers as the original does.
func (d registry) passing(c *Config) *registry {
	if c.Upstream != nil {
		d.upstream, d.endLeases = &http.Client{Transport: c.Upstream}, c.EndLeases
	}
	return &d
}

// passOn answers a procedure of an edge: a node does, by the caller's own token, which the edge adds nothing to. The
// edge's leases of a key that is changed by hand end before, so that the owner knows what was spent, and after, as one
// may have been granted meanwhile.
func passOn[Req, Res any, P pointer[Req]](d *registry, procedure string) func(context.Context, P) (*Res, error) {
	node := connect.NewClient[Req, Res](d.upstream, "http://stint"+procedure)
	return func(ctx context.Context, m P) (*Res, error) {
		if namespace, policy, key, changes := changedByHand(m); changes { //mutant:edge-lease-survives-a-change
			namespace = cmp.Or(namespace, slot.DefaultNamespace)
			d.endLeases(namespace, policy, key)
			defer d.endLeases(namespace, policy, key)
		}
		request := connect.NewRequest((*Req)(m))
		for _, name := range []string{"Authorization", actorHeader} {
			if value := exchangeOf(ctx).value(ctx, name); value != "" {
				request.Header().Set(name, value)
			}
		}
		response, err := node.CallUnary(ctx, request)
		if err == nil {
			withoutSlots(response.Msg)
			return response.Msg, nil
		}
		if failure, ok := errors.AsType[*shard.Error](err); ok { // of the upstream: nothing was sent
			return nil, failure
		}
		if connect.IsWireError(err) {
			return nil, err
		}
		return nil, &shard.Error{Code: shard.UnknownOutcome,
			Message: "no answer came from the cluster: what was asked may have been done (" +
				shortened(err.Error(), 200) + ")"}
	}
}

// changedByHand returns the key that a request changes by hand. Forgetting changes it under all policies.
func changedByHand(request any) (namespace, policy, key string, changes bool) {
	switch m := request.(type) {
	case *stintv1.AdjustRequest:
		return m.Namespace, m.Policy, m.Key, true
	case *stintv1.PutOverrideRequest:
		return m.Namespace, m.Policy, m.Key, true
	case *stintv1.DeleteOverrideRequest:
		return m.Namespace, m.Policy, m.Key, true
	case *stintv1.ForgetRequest:
		return m.Namespace, "", m.Key, true
	}
	return "", "", "", false
}

// withoutSlots leaves out of a status what clients ask the owners of keys by: those of an edge ask the edge.
func withoutSlots(answer any) {
	if status, ok := answer.(*stintv1.StatusResponse); ok {
		for _, s := range status.Shards {
			s.Slots = nil //mutant:client-passes-the-edge
		}
	}
}
