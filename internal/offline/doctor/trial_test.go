package doctor

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/testing/await"
)

// countingNode counts like the cluster it stands for, whose answers all its nodes share.
type countingNode struct {
	stintv1connect.LimitServiceClient
	answers map[string]*stintv1.Decision // by id
	used    *uint64
	late    bool // its answers do not arrive in time
}

func (n countingNode) Check(_ context.Context, r *connect.Request[stintv1.CheckRequest],
) (*connect.Response[stintv1.CheckResponse], error) {
	d := n.answers[r.Msg.IdempotencyId]
	if d == nil {
		d = &stintv1.Decision{Allowed: *n.used < trialQuota, DecidedAt: timestamppb.New(time.Unix(1, 0))}
		if d.Allowed {
			*n.used++
		}
		d.Limits = []*stintv1.LimitStatus{{Used: *n.used, ResetAt: timestamppb.New(time.Unix(3, 0))}}
		n.answers[r.Msg.IdempotencyId] = d
	}
	if n.late {
		return nil, connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	}
	return connect.NewResponse(&stintv1.CheckResponse{Decision: d}), nil
}

// A node may have counted a request whose answer was late. The others do not count it again, and nothing is miscounted.
func TestALateAnswerIsNoWrongCount(t *testing.T) {
	answers, used := make(map[string]*stintv1.Decision), uint64(0)
	d := &doctor{Config: Config{Timeout: await.Patience}}
	for _, late := range []bool{false, true, false} {
		d.Nodes = append(d.Nodes, Node{Name: "node", Limits: countingNode{answers: answers, used: &used, late: late}})
	}
	run := newTrial(trialFirst)
	if err := d.fill(t.Context(), run); err != nil || run.through != 2 {
		t.Errorf("%d nodes took part: %v", run.through, err)
	}
}
