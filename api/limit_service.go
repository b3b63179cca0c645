package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// limitService answers stint.v1.LimitService.
type limitService struct {
	decider  Decider
	policies func() *policy.Set
	observer Observer
}

func (s limitService) register(mux *http.ServeMux, e edge) {
	unary(mux, e, stintv1connect.LimitServiceCheckProcedure, s.check)
	unary(mux, e, stintv1connect.LimitServiceCheckBatchProcedure, s.checkBatch)
	unary(mux, e, stintv1connect.LimitServiceGetProcedure, s.get, readOnly)
	unary(mux, e, stintv1connect.LimitServiceAdjustProcedure, s.adjust)
	unary(mux, e, stintv1connect.LimitServiceReserveProcedure,
		unbuilt[stintv1.ReserveRequest, stintv1.ReserveResponse]("Reserve"))
	unary(mux, e, stintv1connect.LimitServiceSettleProcedure,
		unbuilt[stintv1.SettleRequest, stintv1.SettleResponse]("Settle"))
}

func unbuilt[Req, Res any, P pointer[Req]](procedure string) func(context.Context, P) (*Res, error) {
	return func(context.Context, P) (*Res, error) { return nil, notBuilt(procedure) }
}

func (s limitService) check(ctx context.Context, m *stintv1.CheckRequest) (*stintv1.CheckResponse, error) {
	r, err := checkRequest(m)
	if err != nil {
		return nil, err
	}
	d, err := s.decide(ctx, r)
	if err != nil {
		return nil, err
	}
	return &stintv1.CheckResponse{Decision: s.answer(m, &r, d)}, nil
}

func (s limitService) checkBatch(
	ctx context.Context, m *stintv1.CheckBatchRequest,
) (*stintv1.CheckBatchResponse, error) {
	if len(m.Checks) == 0 {
		return nil, shard.Invalidf("checks", "are missing: a batch has at least one")
	}
	if len(m.Checks) > checksMax {
		return nil, shard.Invalidf("checks", "are %d: at most %d are allowed", len(m.Checks), checksMax)
	}
	answers := make([]*stintv1.Result, len(m.Checks))
	requests := make([]shard.Request, 0, len(m.Checks))
	asked := make([]int, 0, len(m.Checks)) // the check of each request
	for i, check := range m.Checks {
		r, err := checkRequest(check)
		if err != nil {
			answers[i] = &stintv1.Result{Result: &stintv1.Result_Failure{Failure: failureOf(err)}}
			continue
		}
		requests, asked = append(requests, r), append(asked, i)
	}
	if len(requests) > 0 {
		for n, result := range s.decider.Decide(ctx, requests) {
			answers[asked[n]] = s.result(m.Checks[asked[n]], &requests[n], &result)
		}
	}
	return &stintv1.CheckBatchResponse{Results: answers}, nil
}

func (s limitService) result(m *stintv1.CheckRequest, r *shard.Request, result *shard.Result) *stintv1.Result {
	if result.Err != nil {
		return &stintv1.Result{Result: &stintv1.Result_Failure{Failure: failureOf(result.Err)}}
	}
	return &stintv1.Result{Result: &stintv1.Result_Decision{Decision: s.answer(m, r, &result.Decision)}}
}

func (s limitService) get(ctx context.Context, m *stintv1.GetRequest) (*stintv1.GetResponse, error) {
	r, err := getRequest(m)
	if err != nil {
		return nil, err
	}
	d, err := s.decide(ctx, r)
	if err != nil {
		return nil, err
	}
	response := &stintv1.GetResponse{Limits: statusesOf(d.Limits), At: timestampOf(d.DecidedAt)}
	if m.Explain {
		response.Explanation = explainState(d)
	}
	return response, nil
}

func (s limitService) adjust(ctx context.Context, m *stintv1.AdjustRequest) (*stintv1.AdjustResponse, error) {
	r, err := adjustRequest(m)
	if err != nil {
		return nil, err
	}
	d, err := s.decide(ctx, r)
	if err != nil {
		return nil, ofAdjust(err)
	}
	return &stintv1.AdjustResponse{Limits: statusesOf(d.Limits)}, nil
}

// ofAdjust names a field as an AdjustRequest has it: its one policy and key stand in no list of entries.
func ofAdjust(err error) error {
	var failure *shard.Error
	if !errors.As(err, &failure) {
		return err
	}
	renamed := *failure
	renamed.Field = strings.TrimPrefix(failure.Field, "entries[0].")
	return &renamed
}

func (s limitService) decide(ctx context.Context, r shard.Request) (*shard.Decision, error) {
	result := &s.decider.Decide(ctx, []shard.Request{r})[0]
	if result.Err != nil {
		return nil, result.Err
	}
	return &result.Decision, nil
}

// answer is the decision on a check as a message.
func (s limitService) answer(m *stintv1.CheckRequest, r *shard.Request, d *shard.Decision) *stintv1.Decision {
	if r.Op == shard.Check {
		s.observe(r, d)
	}
	message := decisionOf(d)
	policies := s.policies()
	message.Headers = headersOf(policies, r, d)
	if !d.Allowed {
		message.Reason = reasonOf(policies, d)
	}
	if m.Explain {
		message.Explanation = explainDecision(d)
	}
	return message
}

func (s limitService) observe(r *shard.Request, d *shard.Decision) {
	outcome := outcomeOf(d)
	for i := range r.Entries {
		s.observer.Decision(r.Entries[i].Policy, outcome)
	}
}

func outcomeOf(d *shard.Decision) string {
	switch {
	case d.Replayed:
		return "replayed"
	case !d.Allowed:
		return "denied"
	case d.ShadowDenied:
		return "shadow_denied"
	}
	return "allowed"
}
