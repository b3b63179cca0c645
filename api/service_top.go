package api

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// TopReader ranks the busiest keys. It may be called concurrently.
type TopReader interface {
	// Top asks all nodes. missing are the nodes that did not answer.
	Top(ctx context.Context, q *top.Query) (answer top.Answer, missing []string, err error)
	// HideKey returns the keyed hash that stands for a key to callers that may not see it. ok is false as long as no
	// secret of the cluster is known.
	HideKey(namespace, key string) (hash string, ok bool)
}

const topCountDefault = 10

// top lists the busiest keys. Keys covered by the caller's grants of observe-keys are shown in plain; others are shown
// as hashes if the caller may observe the cluster, else not at all.
func (s observeService) top(ctx context.Context, m *stintv1.TopRequest) (*stintv1.TopResponse, error) {
	q, err := topWanted(m)
	sees, refusal := s.visibilityOf(callerIn(ctx), q.Namespace)
	if refusal != nil {
		return nil, refusal
	}
	if err != nil {
		return nil, err
	}
	q.Traffic = m.Traffic && sees.observes
	if s.Top == nil {
		return nil, errNoCluster
	}
	answer, missing, err := s.Top.Top(ctx, &q)
	if err != nil {
		return nil, err
	}
	response := &stintv1.TopResponse{MissingNodes: missing, Cut: answer.Cut}
	for i := range answer.Traffic {
		t := &answer.Traffic[i]
		told := &stintv1.Traffic{Start: timestamppb.New(time.Unix(t.Start, 0)), Admitted: t.Admitted, Denied: t.Denied}
		if took := t.SlowestBut(100); took > 0 {
			told.P99 = durationpb.New(took)
		}
		response.Traffic = append(response.Traffic, told)
	}
	for i := range answer.Policies {
		p := &answer.Policies[i]
		if sees.observes || sees.shows(p.Name, "") {
			response.Policies = append(response.Policies,
				&stintv1.TopPolicy{Policy: p.Name, Since: timestampOf(limit.Time(p.Since)),
					Decisions: p.Totals[top.Decisions], Denials: p.Totals[top.Denials], Units: p.Totals[top.Units]})
		}
		for j := range p.Keys {
			key := topKey(p.Name, &p.Keys[j])
			if key.Key, key.Hashed, err = s.visibleKey(&sees, p.Name, key.Key); err != nil {
				return nil, err
			}
			if key.Key != "" {
				response.Keys = append(response.Keys, key)
			}
		}
	}
	return response, nil
}

func topKey(policy string, k *top.Key) *stintv1.TopKey {
	decisions, denials, units := k.Estimates[top.Decisions], k.Estimates[top.Denials], k.Estimates[top.Units]
	return &stintv1.TopKey{Policy: policy, Key: k.Key, Decisions: decisions.Count, DecisionsError: decisions.Err,
		Denials: denials.Count, DenialsError: denials.Err, Units: units.Count, UnitsError: units.Err}
}

func topWanted(m *stintv1.TopRequest) (q top.Query, err error) {
	namespace, wrongNamespace := namespaceOf(m.Namespace)
	count, wrongCount := countOf("count", m.Count, topCountDefault, top.CountMax)
	q = top.Query{Namespace: namespace, Policies: m.Policies, Count: count}
	if err := cmp.Or(wrongNamespace, policyNamesProblem(m.Policies, top.PoliciesMax), wrongCount); err != nil {
		return q, err
	}
	switch m.Order {
	case stintv1.TopOrder_TOP_ORDER_UNSPECIFIED, stintv1.TopOrder_TOP_ORDER_DECISIONS:
		q.Order = top.Decisions
	case stintv1.TopOrder_TOP_ORDER_DENIALS:
		q.Order = top.Denials
	case stintv1.TopOrder_TOP_ORDER_UNITS:
		q.Order = top.Units
	default:
		return q, shard.Invalidf("order", "is %d, which this version does not know", m.Order)
	}
	switch window := m.Window.AsDuration(); {
	case m.Window != nil && (!m.Window.IsValid() || window <= 0) || window > time.Hour:
		return q, shard.Invalidf("window", "is %v: it must be more than 0, and at most an hour", window)
	case window > 10*time.Minute:
		q.Span = top.Hour
	case window > time.Minute:
		q.Span = top.TenMinutes
	}
	return q, nil
}
