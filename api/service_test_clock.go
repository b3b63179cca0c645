package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stinttestv1 "github.com/stint-io/stint/api/gen/stint/test/v1"
	"github.com/stint-io/stint/api/gen/stint/test/v1/stinttestv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// TestClock moves the clock of a server for tests. It may be called concurrently. Errors are *shard.Error.
type TestClock interface {
	// Advance moves the clock forward and returns the new time once every shard has decided at it.
	Advance(ctx context.Context, by time.Duration) (time.Time, error)
}

// advanceMax is how far a call may move the clock.
const advanceMax = 3650 * 24 * time.Hour

// testClockService answers stint.test.v1.TestClock.
type testClockService struct{ clock TestClock }

func (s testClockService) register(d *registry) {
	unary(d, auth.Cluster, stinttestv1connect.TestClockAdvanceProcedure, s.advance)
}

func (s testClockService) advance(
	ctx context.Context, m *stinttestv1.AdvanceRequest,
) (*stinttestv1.AdvanceResponse, error) {
	by := m.GetBy().AsDuration()
	if m.By != nil && !m.By.IsValid() || by < 0 || by > advanceMax {
		return nil, shard.Invalidf("by", "is %v: the clock moves forward, by %d days at most",
			by, advanceMax/(24*time.Hour))
	}
	now, err := s.clock.Advance(ctx, by)
	if err != nil {
		return nil, err
	}
	return &stinttestv1.AdvanceResponse{Now: timestamppb.New(now)}, nil
}
