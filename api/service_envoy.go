package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// EnvoyProcedure is the procedure of Envoy's rate limit service.
const EnvoyProcedure = "/" + envoyServiceName + "/ShouldRateLimit"

const (
	envoyServiceName = "envoy.service.ratelimit.v3.RateLimitService"
	// envoyHealthName is the service name of envoyproxy/ratelimit's health checks.
	envoyHealthName = "ratelimit"
)

// envoyService answers Envoy's rate limit service, by the rules of the policies file.
type envoyService struct{ limits limitService }

func (s envoyService) register(d *registry) { unary(d, auth.Check, EnvoyProcedure, s.shouldRateLimit) }

func (s envoyService) shouldRateLimit(
	ctx context.Context, m *rlsv3.RateLimitRequest,
) (*rlsv3.RateLimitResponse, error) {
	r, err := envoyRequestOf(s.limits.policies(), m)
	if err == nil {
		err = r.granted(callerIn(ctx))
	}
	if err != nil {
		return nil, err
	}
	if err := s.decide(ctx, r); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && r.counted {
		// Envoy has gone on without the answer, according to its failure_mode_deny. The error counts that.
		return nil, &shard.Error{Code: shard.UnknownOutcome,
			Message: "the request was counted, and its caller did not wait for the answer"}
	}
	return r.answer(), nil
}

// decide takes the steps. Entries that deny nothing are counted whatever the others decide, except shadows: those count
// what would be admitted, so nothing of a denied request.
func (s envoyService) decide(ctx context.Context, r *envoyRequest) error {
	allowed := true
	for _, step := range []envoyStep{envoyLook, envoyTake} {
		if len(r.entries[step]) == 0 || !allowed {
			continue
		}
		decided, err := s.decideTogether(ctx, r, step)
		if err != nil {
			return err
		}
		for at, e := range r.entries[step] {
			e.decided, e.at = decided, at
		}
		r.counted = r.counted || decided.d != nil && decided.d.Index != 0
		allowed = !r.denied(step, decided) //mutant:late-look-lets-others-count
	}
	if err := s.decideRest(ctx, r, allowed); err != nil && allowed { //mutant:failed-report-lifts-denial
		return err
	}
	return nil // a denial stands despite other failures: Envoy lets an error pass
}

// denied reports whether the decision of a step denies the request. It is called after each step.
func (r *envoyRequest) denied(step envoyStep, decided *envoyDecided) bool {
	if decided.d == nil || step == envoyTake {
		return decided.d == nil || !decided.d.Allowed
	}
	return slices.ContainsFunc(r.descriptors, func(d envoyDescriptor) bool {
		return d.status().Code == rlsv3.RateLimitResponse_OVER_LIMIT
	})
}

// decideTogether decides the entries of a step in one request. A key that its policy refuses is denied, and so is one
// that finds no room, or cannot be decided beside the others: an error would let it pass, unless failure_mode_deny is
// set. If a shard has not yet adopted the policies that name the rule's policy, decideTogether asks it again, while
// there is time.
func (s envoyService) decideTogether(ctx context.Context, r *envoyRequest, step envoyStep) (*envoyDecided, error) {
	entries := plainEntries(r.entries[step])
	for {
		policies, request, d, err := s.limits.decideNewest(ctx, func(policies *policy.Set) (shard.Request, error) {
			return r.request(step, entries, policies)
		})
		var failure *shard.Error
		switch errors.As(err, &failure); {
		case err == nil:
			return &envoyDecided{policies: policies, r: request, d: d, unknown: -1}, nil
		case failure != nil && failure.Code == shard.KeyNotFound: //mutant:unknown-key-passes-envoy
			at := 0
			fmt.Sscanf(failure.Field, "entries[%d]", &at)
			s.refused(ctx, policies, r.namespace, entries[min(at, len(entries)-1):][:1])
			return &envoyDecided{unknown: at, named: len(entries)}, nil
		case failure != nil && failure.Code == shard.Invalid: //mutant:undecidable-request-passes-envoy
			return withoutDecision(failure, len(entries)), nil // count_denied, and keys on several shards
		case failure != nil && failure.Code == shard.MemoryFull: //mutant:full-shard-passes-envoy
			return withoutDecision(failure, len(entries)), nil
		//mutant:unknown-policy-is-an-error
		case awaitsAdoption(ctx, err):
			continue
		}
		return nil, err
	}
}

// withoutDecision denies the entry that a failure names, or all of them if it is not about one entry's key.
func withoutDecision(failure *shard.Error, entries int) *envoyDecided {
	at := entries
	fmt.Sscanf(failure.Field, "entries[%d]", &at)
	return &envoyDecided{unknown: at, named: entries, full: true}
}

// refused reports a key that its policy refuses as a denial, which no shard has made.
func (s envoyService) refused(ctx context.Context, policies *policy.Set, namespace string, entries []shard.Entry) {
	stored := slices.Clone(entries)
	for i := range stored {
		stored[i].Key, _ = s.limits.Keys.hash(namespace, entries[i].Key) //mutant:refused-key-told-plain
	}
	exchangeOf(ctx).event.Ask(decisions.Asked{
		Requests: []shard.Request{{Op: shard.Check, Namespace: namespace, Entries: entries}},
		Stored:   []shard.Request{{Op: shard.Check, Namespace: namespace, Entries: stored}},
		Results:  make([]shard.Result, 1),
		Policies: policies,
	})
}

// decideRest decides the entries that deny nothing, in one call. A failed shadow changes nothing, nor does a key that
// its policy refuses: nothing is counted on it. Any other failure to count or to give back fails the request, which
// then may have been counted in part.
func (s envoyService) decideRest(ctx context.Context, r *envoyRequest, allowed bool) error {
	policies := s.limits.policies()
	var requests []shard.Request
	var entries []*envoyEntry // one for each request
	for step := envoyCount; step < envoySteps; step++ {
		if step == envoyShadow && !allowed {
			continue
		}
		for _, e := range r.entries[step] {
			made, err := r.request(step, []shard.Entry{e.Entry}, policies)
			if err != nil {
				return err
			}
			requests, entries = append(requests, made), append(entries, e)
		}
	}
	if len(requests) == 0 {
		return nil
	}
	var failed *shard.Error
	for i, result := range s.limits.Decider.Decide(ctx, requests) {
		switch e := entries[i]; {
		case result.Err == nil:
			e.decided = &envoyDecided{policies: policies, r: &requests[i], d: &result.Decision, unknown: -1}
			r.counted = true
		//mutant:unknown-report-key-fails
		case e.step != envoyShadow && result.Err.Code != shard.KeyNotFound && failed == nil:
			failed = result.Err
		}
	}
	switch {
	case failed == nil:
		return nil
	case r.counted && !failed.MaybeApplied():
		return &shard.Error{Code: shard.UnknownOutcome, Field: failed.Field,
			Message: "was counted in part: " + failed.Message}
	}
	return failed
}
