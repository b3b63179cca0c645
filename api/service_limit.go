package api

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// limitService answers stint.v1.LimitService.
type limitService struct{ *Config }

func (s limitService) register(d *registry) {
	unary(d, auth.Check, stintv1connect.LimitServiceCheckProcedure, s.check)
	unary(d, auth.Check, stintv1connect.LimitServiceCheckBatchProcedure, s.checkBatch)
	unary(d, auth.Read, stintv1connect.LimitServiceGetProcedure, s.get, readOnly)
	unary(d, auth.Check, stintv1connect.LimitServiceReserveProcedure, s.reserve)
	d = d.passing(s.Config)
	change(d, auth.Adjust, stintv1connect.LimitServiceAdjustProcedure, s.adjust)
	change(d, auth.Adjust, stintv1connect.LimitServiceForgetProcedure, s.forget)
	change(d, auth.Correct, stintv1connect.LimitServiceCorrectUsageProcedure, s.correctUsage)
	unary(d, auth.Lease, stintv1connect.LimitServiceLeaseProcedure, s.lease)
	unary(d, auth.Settle, stintv1connect.LimitServiceSettleProcedure, s.settle)
}

func (s limitService) check(ctx context.Context, m *stintv1.CheckRequest) (*stintv1.CheckResponse, error) {
	if err := granted(callerIn(ctx), s.policies(), auth.Check, m.GetNamespace(), m.GetEntries()); err != nil {
		return nil, err
	}
	policies, r, d, err := s.decideNewest(ctx, func(policies *policy.Set) (shard.Request, error) {
		return checkRequest(policies, m)
	})
	if err != nil {
		return nil, err
	}
	return &stintv1.CheckResponse{Decision: s.answer(policies, m, r, d)}, nil
}

func (s limitService) reserve(ctx context.Context, m *stintv1.ReserveRequest) (*stintv1.ReserveResponse, error) {
	made := false
	if err := granted(callerIn(ctx), s.policies(), auth.Check, m.GetCheck().GetNamespace(),
		m.GetCheck().GetEntries()); err != nil {
		return nil, err
	}
	policies, r, d, err := s.decideNewest(ctx, func(policies *policy.Set) (shard.Request, error) {
		r, err := reserveRequest(policies, m)
		made = err == nil
		return r, err
	})
	if err != nil && made {
		err = reserveError(err)
	}
	if err != nil {
		return nil, err
	}
	return &stintv1.ReserveResponse{Decision: s.answer(policies, m.Check, r, d)}, nil
}

func (s limitService) settle(ctx context.Context, m *stintv1.SettleRequest) (*stintv1.SettleResponse, error) {
	policies := s.policies()
	r, err := settleRequest(func(id string) (shard.Request, error) { return s.openID(ctx, id) }, policies, m)
	if err == nil {
		err = grantedSettlement(callerIn(ctx), policies, &r) //mutant:sealed-id-is-a-grant
	}
	if err != nil {
		return nil, err
	}
	d, err := decide(ctx, s.Decider, r)
	if err != nil {
		return nil, err
	}
	message := decisionOf(d)
	message.Headers = headersOf(policies, &r, d)
	if d.HoldExpires > 0 { // the hold lives on, maybe longer than the secret that sealed its id
		message.HoldId = s.sealer().Seal(r.Settlement.Target, r.Namespace, r.Entries)
	}
	return &stintv1.SettleResponse{Decision: message}, nil
}

// openID reads the id of a hold or decision. If it names a secret unknown to this node, openID fetches the newest
// secrets of the cluster.
func (s limitService) openID(ctx context.Context, id string) (shard.Request, error) {
	sealer := s.sealer()
	if sealer == nil {
		return shard.Request{}, errNoSealer
	}
	r, err := sealer.Open(id)
	if !errors.Is(err, shard.ErrHandleNewer) || s.NewestSealer == nil {
		return r, err
	}
	newest, unknown := s.NewestSealer(ctx)
	if unknown != nil {
		return r, err //mutant:unasked-cluster-denies-secret
	}
	if r, err = newest.Open(id); errors.Is(err, shard.ErrHandleNewer) {
		err = shard.ErrHandle // the cluster has no such secret
	}
	return r, err
}

func (s limitService) checkBatch(
	ctx context.Context, m *stintv1.CheckBatchRequest,
) (*stintv1.CheckBatchResponse, error) {
	if err := batchProblem(m); err != nil {
		return nil, err
	}
	return s.decideBatch(ctx, callerIn(ctx), m), nil
}

func batchProblem(m *stintv1.CheckBatchRequest) error {
	if len(m.Checks) == 0 {
		return shard.Invalidf("checks", "are missing: a batch has at least one")
	}
	if len(m.Checks) > checksMax {
		return shard.Invalidf("checks", "are %d: at most %d are allowed", len(m.Checks), checksMax)
	}
	return nil
}

// decideBatch answers each check of a batch that batchProblem has accepted.
func (s limitService) decideBatch(
	ctx context.Context, who *auth.Caller, m *stintv1.CheckBatchRequest,
) *stintv1.CheckBatchResponse {
	answers := make([]*stintv1.Result, len(m.Checks))
	requests := make([]shard.Request, 0, len(m.Checks))
	asked := make([]int, 0, len(m.Checks)) // index of the check of each request
	policies := s.policies()
	for i, check := range m.Checks {
		//mutant:batch-asked-as-a-whole
		err := granted(who, policies, auth.Check, check.GetNamespace(), check.GetEntries())
		var r shard.Request
		if err == nil {
			r, err = checkRequest(policies, check)
		}
		if err != nil {
			answers[i] = &stintv1.Result{Result: &stintv1.Result_Failure{Failure: failureOf(err)}}
			continue
		}
		requests, asked = append(requests, r), append(asked, i)
	}
	if len(requests) > 0 {
		for n, result := range s.Decider.Decide(ctx, requests) {
			check, policies := m.Checks[asked[n]], policies
			if result.Err != nil && result.Err.Code == shard.Outdated && s.awaitNewer(ctx, policies) {
				newest, r, d, err := s.decideNewest(ctx, func(p *policy.Set) (shard.Request, error) {
					return checkRequest(p, check)
				})
				if err != nil {
					answers[asked[n]] = &stintv1.Result{Result: &stintv1.Result_Failure{Failure: failureOf(err)}}
					continue
				}
				policies, requests[n], result = newest, *r, shard.Result{Decision: *d}
			}
			answers[asked[n]] = s.batchResult(policies, check, &requests[n], &result)
		}
	}
	return &stintv1.CheckBatchResponse{Results: answers}
}

func (s limitService) batchResult(
	policies *policy.Set, m *stintv1.CheckRequest, r *shard.Request, result *shard.Result,
) *stintv1.Result {
	if result.Err != nil {
		return &stintv1.Result{Result: &stintv1.Result_Failure{Failure: failureOf(result.Err)}}
	}
	return &stintv1.Result{Result: &stintv1.Result_Decision{Decision: s.answer(policies, m, r, &result.Decision)}}
}

func (s limitService) get(ctx context.Context, m *stintv1.GetRequest) (*stintv1.GetResponse, error) {
	if err := granted(callerIn(ctx), s.policies(), auth.Read, m.Namespace, m.Entries); err != nil {
		return nil, err
	}
	if m.StaleOk && s.Stale != nil {
		policies := s.policies()
		r, err := getRequest(policies, m)
		if err != nil {
			return nil, err
		}
		if d, behind, ok := s.Stale(r); ok {
			response := stateOf(policies, m, &r, &d)
			response.StaleBy = durationpb.New(behind)
			return response, nil
		}
	}
	policies, r, d, err := s.decideNewest(ctx, func(policies *policy.Set) (shard.Request, error) {
		return getRequest(policies, m)
	})
	if err != nil {
		return nil, err
	}
	return stateOf(policies, m, r, d), nil
}

func stateOf(policies *policy.Set, m *stintv1.GetRequest, r *shard.Request, d *shard.Decision) *stintv1.GetResponse {
	response := &stintv1.GetResponse{Limits: statusesOf(d.Limits), At: timestampOf(d.DecidedAt), Fired: firedOf(d),
		Leases: leasesOf(d)}
	if m.Explain {
		response.Explanation = explainState(policies, r, d)
	}
	return response
}

func (s limitService) adjust(ctx context.Context, who string, m *stintv1.AdjustRequest) (
	*stintv1.AdjustResponse, error) {
	r, err := adjustRequest(m, who)
	if err == nil {
		err = grantedRequest(callerIn(ctx), auth.Adjust, &r)
	}
	if err != nil {
		return nil, err
	}
	d, err := decide(ctx, s.Decider, r)
	if err != nil {
		return nil, adjustError(err)
	}
	return &stintv1.AdjustResponse{Limits: statusesOf(d.Limits), Leases: leasesOf(d)}, nil
}

// newestEvery is the interval between two looks for policies newer than those that a shard refused.
const newestEvery = 20 * time.Millisecond

// decideNewest builds a request from the policies and decides it. If the shard has adopted newer policies, with parents
// unknown to this node, it builds the request again once this node knows those policies: build may be called more than
// once. It returns the policies of the last attempt also beside an error. The request is built where the decider reads
// it: copies on the stack made that of each call grow once more.
func (s limitService) decideNewest(ctx context.Context, build func(*policy.Set) (shard.Request, error)) (
	policies *policy.Set, r *shard.Request, d *shard.Decision, err error) {
	requests := make([]shard.Request, 1)
	for {
		policies = s.policies()
		if requests[0], err = build(policies); err != nil {
			return policies, nil, nil, err
		}
		result := &s.Decider.Decide(ctx, requests)[0]
		if result.Err == nil {
			return policies, &requests[0], &result.Decision, nil
		}
		if result.Err.Code != shard.Outdated || !s.awaitNewer(ctx, policies) {
			return policies, nil, nil, result.Err
		}
	}
}

// awaitNewer waits until this node knows newer policies. It returns false if ctx ended first.
func (s limitService) awaitNewer(ctx context.Context, than *policy.Set) bool {
	for s.policies().Version() <= than.Version() {
		if !sleep.For(ctx, newestEvery) {
			return false
		}
	}
	return true
}

// awaitsAdoption reports whether a request of rules, which name only policies that exist, is to be asked again: its
// shard has not adopted them yet. It returns after a pause, or false if ctx ended first.
func awaitsAdoption(ctx context.Context, err error) bool {
	failure, _ := errors.AsType[*shard.Error](err)
	return failure != nil && failure.Code == shard.PolicyNotFound && sleep.For(ctx, newestEvery)
}

// answer translates the decision on a check or a reservation into a message.
func (s limitService) answer(
	policies *policy.Set, m *stintv1.CheckRequest, r *shard.Request, d *shard.Decision,
) *stintv1.Decision {
	id := idOf(s.sealer(), policies, r, d)
	message := decisionOf(d)
	if r.Op == shard.Reserve {
		message.HoldId = id
	} else {
		message.DecisionId = id
	}
	message.Headers = headersOf(policies, r, d)
	if !d.Allowed {
		message.Reason = decisions.Reason(policies, r, d)
	}
	if m.Explain {
		message.Explanation = explainDecision(policies, r, d)
	}
	return message
}
