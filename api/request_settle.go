package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// settleRequest translates and validates a settlement. open reads the sealed id, which names the target.
func settleRequest(
	open func(id string) (shard.Request, error), policies *policy.Set, m *stintv1.SettleRequest,
) (shard.Request, error) {
	if err := idProblem(m.IdempotencyId); err != nil {
		return shard.Request{}, err
	}
	r, err := settleTarget(open, m)
	if err != nil {
		return shard.Request{}, err
	}
	r.ID = m.IdempotencyId
	return r, settleAction(policies, m, &r)
}

// settleTarget reads the target of a settlement.
func settleTarget(open func(id string) (shard.Request, error), m *stintv1.SettleRequest) (shard.Request, error) {
	var id, field, other string
	var hold bool
	switch target := m.Target.(type) {
	case *stintv1.SettleRequest_HoldId:
		id, field, other, hold = target.HoldId, "hold_id", "decision_id", true
	case *stintv1.SettleRequest_DecisionId:
		id, field, other = target.DecisionId, "decision_id", "hold_id"
	default:
		return shard.Request{}, shard.Invalidf("target", "is missing: hold_id or decision_id says what to settle")
	}
	if id == "" {
		return shard.Request{}, shard.Invalidf(field, "is empty")
	}
	r, err := open(id)
	if err != nil {
		return shard.Request{}, unreadableID(field, err)
	}
	if r.Settlement.Target.Hold != hold {
		return shard.Request{}, shard.Invalidf(field, "is a %s: send it as that", other)
	}
	return r, nil
}

// unreadableID explains why an id was not read. Only an id that was never given out is the caller's fault.
func unreadableID(field string, err error) error {
	code := shard.Invalid
	switch {
	case err == errNoSealer:
		return err
	case errors.Is(err, shard.ErrHandleDropped):
		code = shard.HoldEnded
	case errors.Is(err, shard.ErrHandleNewer):
		code = shard.Unavailable
	}
	return &shard.Error{Code: code, Field: field, Message: err.Error()}
}

var errNoSealer error = &shard.Error{Code: shard.Unavailable,
	Message: "this node does not know yet how the cluster's ids are sealed; nothing was settled; ask again"}

// settleAction reads the action of a settlement.
func settleAction(policies *policy.Set, m *stintv1.SettleRequest, r *shard.Request) (err error) {
	s := r.Settlement
	switch action := m.Action.(type) {
	case *stintv1.SettleRequest_Commit:
		s.Action = shard.ActionCommit
		return commitOf(policies, action.Commit, r)
	case *stintv1.SettleRequest_Cancel:
		s.Action = shard.ActionCancel
	case *stintv1.SettleRequest_Extend:
		if s.Action = shard.ActionExtend; !s.Target.Hold {
			return shard.Invalidf("extend", "is for a hold: a decision has no life to be extended")
		}
		s.TTL, err = ttlOf("extend.ttl", action.Extend.GetTtl())
		return err
	case *stintv1.SettleRequest_Success:
		s.Action = shard.ActionSuccess
	case *stintv1.SettleRequest_Failed:
		s.Action = shard.ActionFailed
	default:
		return shard.Invalidf("action", "is missing: commit, cancel, extend, success or failed")
	}
	return nil
}

// commitOf reads a commit into the request's settlement.
func commitOf(policies *policy.Set, m *stintv1.Commit, r *shard.Request) (err error) {
	switch overage := m.GetOverage(); overage {
	case stintv1.Overage_OVERAGE_UNSPECIFIED, stintv1.Overage_OVERAGE_CLAMP:
	case stintv1.Overage_OVERAGE_DEBT:
		r.Settlement.Overage = shard.OverageDebt
	case stintv1.Overage_OVERAGE_REJECT:
		r.Settlement.Overage = shard.OverageReject
	default:
		return shard.Invalidf("commit.overage", "%d is none", overage)
	}
	for i, actual := range m.GetActualCost() {
		if actual > limit.MaxCost {
			return shard.Invalidf(fmt.Sprintf("commit.actual_cost[%d]", i), "is %d: at most %d are allowed", actual,
				int64(limit.MaxCost))
		}
	}
	r.Settlement.Actual, err = actualCosts(policies, r.Entries, m.GetActualCost())
	return err
}

// actualCosts returns the units spent on each entry, or nil for the units that were taken. The caller names the costs
// of its own entries, which come first. The costs of the entries that were added for parents are computed: from the
// policies, or, if those have changed since the decision, from the units that were taken.
func actualCosts(policies *policy.Set, entries []shard.Entry, actual []uint64) ([]uint64, error) {
	if len(actual) == 0 || len(actual) == len(entries) {
		return actual, nil
	}
	wrong := shard.Invalidf("commit.actual_cost", "has %d numbers, and %d entries were decided: "+
		"one for each, or for each but those that were added for the parents of their policies", len(actual),
		len(entries))
	if len(actual) > len(entries) {
		return nil, wrong
	}
	own := append([]shard.Entry(nil), entries[:len(actual)]...)
	for i := range own {
		own[i].Cost = actual[i]
	}
	all, err := withParents(policies, own)
	if err != nil {
		return nil, shard.Invalidf("commit.actual_cost", "%s", err)
	}
	if !slices.EqualFunc(all, entries, func(a, b shard.Entry) bool { return a.Policy == b.Policy && a.Key == b.Key }) {
		costs, ok := costsAsTaken(entries, actual)
		if !ok {
			return nil, wrong
		}
		return costs, nil
	}
	costs := make([]uint64, len(all))
	for i := range all {
		costs[i] = all[i].Cost
	}
	return costs, nil
}

// costsAsTaken computes the costs of the parents' entries without the policies. The units taken on a parent are the sum
// of the units taken on the keys below it. It returns false if the sums are ambiguous.
func costsAsTaken(entries []shard.Entry, actual []uint64) (costs []uint64, ok bool) {
	own, costs := entries[:len(actual)], slices.Clone(actual)
	for i := range entries[len(own):] {
		parent := &entries[len(own)+i]
		spent, ok := spentBelow(parent, own, actual, func(*shard.Entry) bool { return true })
		if !ok { // the parent was added for an entry between them that the caller has named
			spent, ok = spentBelow(parent, own, actual, func(e *shard.Entry) bool {
				return !slices.ContainsFunc(own, func(named shard.Entry) bool {
					return isBelow(e, &named) && isBelow(&named, parent)
				})
			})
		}
		if !ok || spent > limit.MaxCost {
			return nil, false
		}
		costs = append(costs, spent)
	}
	return costs, true
}

// spentBelow adds up the units spent on the caller's entries below a parent for which counts is true. It returns false
// if these entries did not take the parent's units.
func spentBelow(
	parent *shard.Entry, own []shard.Entry, actual []uint64, counts func(*shard.Entry) bool,
) (spent uint64, ok bool) {
	taken := uint64(0)
	for i := range own {
		if isBelow(&own[i], parent) && counts(&own[i]) {
			taken += own[i].Cost
			spent += actual[i]
		}
	}
	return spent, taken == parent.Cost
}

// isBelow reports whether an entry's key is below a parent's, at any depth. It does not ask the policies.
func isBelow(e, parent *shard.Entry) bool { return strings.HasPrefix(e.Key, parent.Key+"/") }
