package api

import (
	"maps"
	"math"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-io/stint/api/gates"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// envoyDecided is a request of a step with its decision.
type envoyDecided struct {
	policies *policy.Set
	r        *shard.Request
	d        *shard.Decision // nil if it was not decided
	// unknown is the index of an entry denied because the policy does not know its key, or below 0. d is nil then.
	unknown int
	named   int  // entries in r without those of parents
	full    bool // there is no room for the unknown key
}

// refuses reports whether the key of an entry, or of its parent, is unknown to its policy or has no room.
func (e *envoyDecided) refuses(at int) bool {
	return e.d == nil && (e.unknown == at || e.unknown >= e.named)
}

// envoyAnswer makes the answer from the decisions on all entries.
func envoyAnswer(r *envoyRequest, decided *envoyOutcome) *rlsv3.RateLimitResponse {
	m := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK,
		Statuses: make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(r.descriptors))}
	for i := range r.descriptors {
		m.Statuses[i] = envoyStatus(&r.descriptors[i], decided)
		if m.Statuses[i].Code == rlsv3.RateLimitResponse_OVER_LIMIT {
			m.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
		}
	}
	over := m.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT
	headers := map[string]string{}
	for _, step := range []envoyStep{envoyLook, envoyTake} {
		if of := decided.of[step]; len(of) > 0 && of[0].full {
			headers["Retry-After"], m.RawBody = "1", []byte(gates.Unchecked)
		} else if len(of) > 0 && of[0].d != nil {
			maps.Copy(headers, headersOf(of[0].policies, of[0].r, of[0].d))
			if over && len(m.RawBody) == 0 {
				m.RawBody = []byte(decisions.Reason(of[0].policies, of[0].r, of[0].d))
			}
		}
	}
	if !over {
		delete(headers, "Retry-After") // of a look that is not denied
	}
	if len(m.RawBody) > 0 {
		headers["Content-Type"] = "text/plain; charset=utf-8"
		m.RawBody = append(m.RawBody, '\n')
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		switch name {
		case "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset":
			continue // Envoy writes these itself, from the statuses, if configured
		}
		m.ResponseHeadersToAdd = append(m.ResponseHeadersToAdd, &corev3.HeaderValue{Key: name, Value: headers[name]})
	}
	return m
}

// envoyStatus is the answer to one descriptor: about the limit that matters most among all that it counts.
func envoyStatus(descriptor *envoyDescriptor, decided *envoyOutcome) *rlsv3.RateLimitResponse_DescriptorStatus {
	m := &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK}
	var shown *shard.LimitStatus
	var of *envoyDecided
	unlimited := false
	for _, share := range descriptor.shares {
		entry := decided.request(share)
		if entry == nil {
			continue
		}
		if share.step <= envoyTake && entry.refuses(decided.indexIn(share)) {
			m.Code = rlsv3.RateLimitResponse_OVER_LIMIT
		}
		if entry.d == nil {
			continue
		}
		for _, s := range envoyStatuses(entry, decided.indexIn(share)) {
			if s.Unlimited {
				unlimited = true
				continue
			}
			if share.step == envoyCount {
				s.Allowed = true // past the quota, which denies nothing: the status shows when the window ends
			}
			if share.step <= envoyTake && envoyOver(descriptor, share.step, s) {
				m.Code = rlsv3.RateLimitResponse_OVER_LIMIT
			}
			if shown == nil || shown.Shadow && !s.Shadow || shown.Shadow == s.Shadow && tighter(entry.d, s, shown) {
				shown, of = s, entry
			}
		}
	}
	switch {
	case shown != nil:
		showEnvoyLimit(m, descriptor, of, shown)
	case unlimited:
		m.LimitRemaining = math.MaxUint32
	}
	return m
}

// envoyOver reports whether a limit denies its descriptor.
func envoyOver(descriptor *envoyDescriptor, step envoyStep, s *shard.LimitStatus) bool {
	if step == envoyLook && descriptor.lookPast && !s.Blocked {
		return !s.Shadow && s.Used > s.Quota
	}
	return decisions.Stands(s)
}

// envoyStatuses returns the limits of one entry of a decision, and of its parents.
func envoyStatuses(of *envoyDecided, at int) (found []*shard.LimitStatus) {
	e := of.r.Entries[at]
	for named := true; named; e, named = shard.ParentOf(of.policies, &e) {
		for i := range of.d.Limits {
			if s := &of.d.Limits[i]; s.Policy == e.Policy && s.Key == e.Key {
				found = append(found, s)
			}
		}
	}
	return found
}

// showEnvoyLimit shows a limit: whole seconds, rounded up, because Envoy truncates to seconds.
func showEnvoyLimit(m *rlsv3.RateLimitResponse_DescriptorStatus, descriptor *envoyDescriptor, of *envoyDecided, s *shard.LimitStatus) {
	m.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{Name: descriptor.name, RequestsPerUnit: clamped(s.Quota)}
	if rule, found := decisions.Rule(of.policies, of.r, s); found {
		unit, times := envoyUnitOf(&rule, windowOf(&rule, s))
		m.CurrentLimit.Unit = unit
		if times > 1 {
			m.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(times)
		}
	}
	m.LimitRemaining = clamped(s.Left())
	if wait, ok := untilMore(of.d, s); ok {
		m.DurationUntilReset = &durationpb.Duration{Seconds: seconds(wait)}
	}
}

func clamped(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }
