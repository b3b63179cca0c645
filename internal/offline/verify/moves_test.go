package verify

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// movable is a cluster with four slots. Each time that it is asked for its status, one slot more has moved.
type movable struct {
	stintv1connect.UnimplementedClusterServiceHandler
	asked func(now []uint32) // called when a number of shards was asked for, with all so far

	mu       sync.Mutex
	version  uint64
	wanted   uint32
	revision uint64    // of wanted
	slots    [4]uint32 // the shard of each
	log      []uint32  // the numbers of shards that were asked for
	stale    bool      // each second answer is the first one
	first    *stintv1.StatusResponse
	answers  int
	partial  bool
	stuck    bool // no slot moves
}

func (m *movable) SetShards(_ context.Context, r *connect.Request[stintv1.SetShardsRequest]) (
	*connect.Response[stintv1.SetShardsResponse], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Msg.ExpectedRevision == nil || *r.Msg.ExpectedRevision != m.revision {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("another one is in force"))
	}
	m.version++
	m.revision++
	m.wanted = r.Msg.Shards
	m.log = append(m.log, m.wanted)
	if m.asked != nil {
		m.asked(m.log)
	}
	return connect.NewResponse(&stintv1.SetShardsResponse{}), nil
}

func (m *movable) Status(context.Context, *connect.Request[stintv1.StatusRequest]) (
	*connect.Response[stintv1.StatusResponse], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers++; m.stale && m.answers%2 == 0 {
		return connect.NewResponse(m.first), nil
	}
	left := uint32(0)
	for i, moved := 0, m.stuck; i < len(m.slots); i++ {
		switch want := uint32(i) % m.wanted; {
		case m.slots[i] == want:
		case moved:
			left++
		default:
			m.slots[i], moved = want, true
			m.version++
		}
	}
	s := &stintv1.StatusResponse{TableVersion: m.version, WantedShards: m.wanted, ShardsRevision: m.revision,
		SlotsToMove: left, Partial: m.partial}
	for id := range uint32(4) {
		s.Shards = append(s.Shards, &stintv1.Shard{Id: id})
	}
	for i, id := range m.slots {
		s.Shards[id].Slots = append(s.Shards[id].Slots, &stintv1.SlotRange{First: uint32(i), Last: uint32(i)})
	}
	if m.first == nil {
		m.first = s
	}
	return connect.NewResponse(s), nil
}

// moveOn has the slots of a cluster move, in a bubble.
func moveOn(t *testing.T, m *movable, ctx func(context.Context) context.Context) (slots int, err error) {
	t.Helper()
	m.version, m.wanted = 7, 1
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.Handle(stintv1connect.NewClusterServiceHandler(m))
		moves := Moves{Addresses: []string{"n1", "n2"}, Shards: []uint32{3, 2}, dial: serve(t, mux)}
		slots, err = moves.ThereAndBack(ctx(t.Context()))
	})
	return slots, err
}

func uncut(ctx context.Context) context.Context { return ctx }

// TestSlotsMoveThereAndBack: the number that was found is asked for again only when all have moved, by the word of a
// node that is not cut off. Each number is asked for by the revision that was seen.
func TestSlotsMoveThereAndBack(t *testing.T) {
	for _, stale := range []bool{false, true} {
		m := &movable{stale: stale}
		slots, err := moveOn(t, m, uncut)
		if err != nil || slots != 6 || !slices.Equal(m.log, []uint32{3, 2, 1}) || m.slots != [4]uint32{} {
			t.Errorf("stale answers %v: %d slots moved, asked for %v, slots on %v: %v",
				stale, slots, m.log, m.slots, err)
		}
	}
}

// TestSlotsMoveBackAfterAnInterruption: at whatever instant it comes, the cluster has its number again.
func TestSlotsMoveBackAfterAnInterruption(t *testing.T) {
	m := &movable{}
	slots, err := moveOn(t, m, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		m.asked = func([]uint32) { cancel() }
		return ctx
	})
	if err != nil || slots > 1 || !slices.Equal(m.log, []uint32{3, 1}) || m.slots != [4]uint32{} {
		t.Errorf("%d slots moved, asked for %v, slots on %v: %v", slots, m.log, m.slots, err)
	}
	m = &movable{}
	slots, err = moveOn(t, m, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	})
	if err != nil || slots != 0 || m.log != nil {
		t.Errorf("before anything was asked for: %d slots moved, asked for %v: %v", slots, m.log, err)
	}
}

func TestSlotsThatDoNotMoveAreAnError(t *testing.T) {
	m := &movable{}
	m.asked = func(asked []uint32) { m.stuck = len(asked) == 1 }
	_, err := moveOn(t, m, uncut)
	if err == nil || !strings.Contains(err.Error(), "2 slots are still to move until 3 shards") ||
		!slices.Equal(m.log, []uint32{3, 1}) {
		t.Errorf("asked for %v: %v", m.log, err)
	}
	m = &movable{partial: true}
	if _, err := moveOn(t, m, uncut); err == nil || !strings.Contains(err.Error(), "cluster and observe") ||
		m.log != nil {
		t.Errorf("asked for %v: %v", m.log, err)
	}
}
