package verify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/sleep"
)

// Moves has slots move between the shards of a running cluster, while a run is under way.
type Moves struct {
	Addresses []string          // of the nodes, as in Plan
	Token     string            // as in Plan; may be empty
	TLS       *tls.Config       // as in Plan
	Shards    []uint32          // how many are to share the keys for a while, one number after the other
	Tell      func(what string) // called when a change begins; may be nil

	dial func(ctx context.Context, network, address string) (net.Conn, error) // as in Plan
}

const (
	// movesPatience bounds how long the slots may take until the wanted shards share them. They leave time for callers.
	movesPatience = time.Hour
	// movesLook is the time between two looks at them, and between two tries to ask.
	movesLook = 200 * time.Millisecond
	// movesCall bounds one call.
	movesCall = 5 * time.Second
)

// errMayNot is the error of a token with which the moves cannot be followed.
var errMayNot = errors.New("the token may not observe the cluster: it takes the operations cluster and observe")

// moving is a cluster with slots that move. One goroutine uses it.
type moving struct {
	*Moves
	nodes []stintv1connect.ClusterServiceClient
	next  int // the node that is asked next

	table uint64            // version of the newest table
	slots map[uint32]uint32 // the shard of each slot in it
	moved int               // slots that changed their shards
}

// ThereAndBack has as many shards share the keys as each of Shards says, and then as many as before. If ctx ends it
// goes back at once. It returns when no slot moves any more, and says how many slots moved; one that moved there and
// back counts twice. An error means that the number of shards could not be read or changed, or that slots still move.
func (m *Moves) ThereAndBack(ctx context.Context) (slots int, err error) {
	c := newCaller(Plan{Token: m.Token, TLS: m.TLS, dial: m.dial})
	defer c.close()
	g := &moving{Moves: m}
	for _, address := range m.Addresses {
		g.nodes = append(g.nodes,
			stintv1connect.NewClusterServiceClient(c.http, urlOf(address), connect.WithProtoJSON()))
	}
	before, err := g.status(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, nil // nothing was changed yet
	case err != nil:
		return 0, err
	}
	var there error
	now := before.WantedShards
	for at := 0; at < len(m.Shards) && there == nil; at++ {
		if there = g.change(ctx, now, m.Shards[at]); refusedForGood(there) && at == 0 {
			return g.moved, there
		}
		now = m.Shards[at]
	}
	if ctx.Err() != nil {
		there = nil // it was cut short, which is no fault
	}
	back := g.change(context.WithoutCancel(ctx), now, before.WantedShards)
	return g.moved, errors.Join(there, back)
}

// Repeat goes there and back, again and again until ctx ends.
func (m *Moves) Repeat(ctx context.Context) (slots int, err error) {
	for ctx.Err() == nil && err == nil {
		var moved int
		moved, err = m.ThereAndBack(ctx)
		slots += moved
	}
	return slots, err
}

// change has a number of shards share the keys, and waits until they do.
func (g *moving) change(ctx context.Context, from, to uint32) error {
	ctx, cancel := context.WithTimeout(ctx, movesPatience)
	defer cancel()
	if g.Tell != nil {
		g.Tell(fmt.Sprintf("number of shards: from %d to %d", from, to))
	}
	err := g.persist(ctx, func(ctx context.Context, node stintv1connect.ClusterServiceClient) error {
		now, err := node.Status(ctx, connect.NewRequest(&stintv1.StatusRequest{}))
		if err != nil {
			return err
		}
		_, err = node.SetShards(ctx,
			connect.NewRequest(&stintv1.SetShardsRequest{Shards: to, ExpectedRevision: &now.Msg.ShardsRevision}))
		return err
	})
	if err != nil {
		return fmt.Errorf("asking for %d shards: %w", to, err)
	}
	left := error(nil)
	for {
		now, err := g.status(ctx)
		if err != nil {
			return cmp.Or(left, err)
		}
		if now.WantedShards == to && now.SlotsToMove == 0 && len(now.SlotMoves) == 0 {
			return nil
		}
		left = fmt.Errorf("%d slots are still to move until %d shards have equally many: see stint shards",
			now.SlotsToMove, to)
		if !sleep.For(ctx, movesLook) {
			return left
		}
	}
}

// status is the newest one that any node has told so far: a node that is cut off tells an old one.
func (g *moving) status(ctx context.Context) (now *stintv1.StatusResponse, err error) {
	err = g.persist(ctx, func(ctx context.Context, node stintv1connect.ClusterServiceClient) error {
		reply, err := node.Status(ctx, connect.NewRequest(&stintv1.StatusRequest{}))
		if err != nil {
			return err
		}
		if now = reply.Msg; now.Partial {
			return connect.NewError(connect.CodePermissionDenied, errMayNot)
		}
		if now.TableVersion < g.table {
			return connect.NewError(connect.CodeUnavailable, errors.New("the node knows an old table"))
		}
		return nil
	})
	if err == nil {
		g.look(now)
	}
	return now, err
}

// look counts the slots that are on other shards than before.
func (g *moving) look(now *stintv1.StatusResponse) {
	slots := map[uint32]uint32{}
	for _, s := range now.Shards {
		for _, r := range s.Slots {
			for slot := r.First; slot <= r.Last; slot++ {
				slots[slot] = s.Id
				if was, known := g.slots[slot]; known && was != s.Id {
					g.moved++
				}
			}
		}
	}
	g.table, g.slots = now.TableVersion, slots
}

// persist asks one node after another until one answers. What a node refuses for good, no other one is asked.
func (g *moving) persist(ctx context.Context,
	ask func(context.Context, stintv1connect.ClusterServiceClient) error) error {
	for {
		call, cancel := context.WithTimeout(ctx, movesCall)
		err := ask(call, g.nodes[g.next%len(g.nodes)])
		cancel()
		if err == nil || refusedForGood(err) {
			return err
		}
		g.next++
		if !sleep.For(ctx, movesLook) {
			return fmt.Errorf("no node answers: %w", err)
		}
	}
}

// refusedForGood reports whether any node would answer the same.
func refusedForGood(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodePermissionDenied, connect.CodeUnauthenticated,
		connect.CodeUnimplemented:
		return true
	}
	return false
}
