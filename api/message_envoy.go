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
	policies *policy.Set     // by which r was made; nil with d
	r        *shard.Request  // with the entries of parents; nil with d
	d        *shard.Decision // nil if it was not decided
	// unknown is the index of an entry denied because the policy does not know its key, or below 0. d is nil then.
	unknown int
	named   int  // entries in r without those of parents
	full    bool // the key is not unknown: it has no room, or cannot be decided beside the others
}

// refuses reports whether the key of an entry, or of its parent, is unknown to its policy or has no room.
func (e *envoyDecided) refuses(at int) bool {
	return e.d == nil && (e.unknown == at || e.unknown >= e.named)
}

// answer makes the answer from the decisions on all entries.
func (r *envoyRequest) answer() *rlsv3.RateLimitResponse {
	m := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_OK,
		Statuses: make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(r.descriptors))}
	for i := range r.descriptors {
		m.Statuses[i] = r.descriptors[i].status()
		if m.Statuses[i].Code == rlsv3.RateLimitResponse_OVER_LIMIT {
			m.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
		}
	}
	over := m.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT
	headers := map[string]string{}
	for _, step := range []envoyStep{envoyLook, envoyTake} {
		if len(r.entries[step]) == 0 {
			continue
		}
		switch of := r.entries[step][0].decided; {
		case of == nil:
		case of.full:
			headers["Retry-After"], m.RawBody = "1", []byte(gates.Unchecked)
		case of.d != nil:
			maps.Copy(headers, headersOf(of.policies, of.r, of.d))
			if step == envoyLook && r.decided(envoyTake) { // it passed, though at its quota it has a wait and a reason
				delete(headers, "Retry-After")
			} else if over && len(m.RawBody) == 0 {
				m.RawBody = []byte(decisions.Reason(of.policies, of.r, of.d))
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

// decided reports whether a step was decided. Entries that are taken are, once no look has denied.
func (r *envoyRequest) decided(step envoyStep) bool {
	return len(r.entries[step]) > 0 && r.entries[step][0].decided != nil
}

// status is the answer to one descriptor: about the limit that matters most among all that it counts.
func (d *envoyDescriptor) status() *rlsv3.RateLimitResponse_DescriptorStatus {
	m := &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_OK}
	var shown *shard.LimitStatus
	var of *envoyDecided
	unlimited := false
	for _, e := range d.entries {
		if e.decided == nil {
			continue
		}
		if e.decided.refuses(e.at) {
			m.Code = rlsv3.RateLimitResponse_OVER_LIMIT
		}
		if e.decided.d == nil {
			continue
		}
		for _, s := range e.statuses() {
			if s.Unlimited {
				unlimited = true
				continue
			}
			if e.step == envoyCount {
				s.Allowed = true // past the quota, which denies nothing: the status shows when the window ends
			}
			if e.step <= envoyTake && d.isOver(e.step, s) {
				m.Code = rlsv3.RateLimitResponse_OVER_LIMIT
			}
			if shown == nil || shown.Shadow && !s.Shadow || shown.Shadow == s.Shadow && tighter(e.decided.d, s, shown) {
				shown, of = s, e.decided
			}
		}
	}
	switch {
	case shown != nil:
		d.show(m, of, shown)
	case unlimited:
		m.LimitRemaining = math.MaxUint32
	}
	return m
}

// isOver reports whether a limit denies the descriptor.
func (d *envoyDescriptor) isOver(step envoyStep, s *shard.LimitStatus) bool {
	if step == envoyLook && d.lookPast && !s.Blocked {
		return !s.Shadow && s.Used > s.Quota
	}
	return decisions.Stands(s)
}

// statuses returns the limits of a decided entry, and of its parents.
func (e *envoyEntry) statuses() (found []*shard.LimitStatus) {
	of := e.decided
	named := of.r.Entries[e.at]
	for more := true; more; named, more = shard.ParentOf(of.policies, &named) {
		for i := range of.d.Limits {
			if s := &of.d.Limits[i]; s.Policy == named.Policy && s.Key == named.Key {
				found = append(found, s)
			}
		}
	}
	return found
}

// show fills in the answer about a limit: whole seconds, rounded up, because Envoy truncates to seconds.
func (d *envoyDescriptor) show(
	m *rlsv3.RateLimitResponse_DescriptorStatus, of *envoyDecided, s *shard.LimitStatus,
) {
	m.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{Name: d.name, RequestsPerUnit: clamped(s.Quota)}
	if rule, found := ruleShown(of.policies, of.r, of.d, s); found { //mutant:envoy-shows-another-tier
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

// clamped returns n, or the largest number that Envoy's messages hold.
func clamped(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }
