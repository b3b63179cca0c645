package api

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// holdTTLDefault is the life of a hold whose request does not name one: 60 s.
const holdTTLDefault = 60 * limit.Span(microsPerSecond)

// reserveRequest translates and validates, as checkRequest does.
func reserveRequest(policies *policy.Set, m *stintv1.ReserveRequest) (shard.Request, error) {
	if m.Check == nil {
		return shard.Request{}, shard.Invalidf("check", "is missing: it says what to hold")
	}
	r, err := checkRequest(policies, m.Check)
	if err == nil && r.Op != shard.Check {
		err = shard.Invalidf("mode", "is for a check: a hold is decided as with MODE_ENFORCE")
	}
	if err != nil {
		return shard.Request{}, ofReserve(err)
	}
	terms := &shard.HoldTerms{TTL: holdTTLDefault}
	if m.Ttl != nil {
		if terms.TTL, err = ttlOf("ttl", m.Ttl); err != nil {
			return shard.Request{}, err
		}
	}
	switch m.OnExpire {
	case stintv1.OnExpire_ON_EXPIRE_UNSPECIFIED:
	case stintv1.OnExpire_ON_EXPIRE_CANCEL:
		terms.OnExpire = policy.OnExpireCancel
	case stintv1.OnExpire_ON_EXPIRE_COMMIT:
		terms.OnExpire = policy.OnExpireCommit
	default:
		return shard.Request{}, shard.Invalidf("on_expire", "%d is no end of a hold", m.OnExpire)
	}
	r.Op, r.Hold = shard.Reserve, terms
	return r, nil
}

// ofReserve names a field as a ReserveRequest has it.
func ofReserve(err error) error {
	return renamed(err, func(field string) string { return "check." + field })
}

// ttlOf is the life of a hold.
func ttlOf(field string, d *durationpb.Duration) (limit.Span, error) {
	const longest = time.Duration(shard.MaxHoldTTL) * time.Microsecond
	switch ttl := d.AsDuration(); {
	case d == nil:
		return 0, shard.Invalidf(field, "is missing: how long the hold is to live from now on")
	case d.CheckValid() != nil:
		return 0, shard.Invalidf(field, "is no duration: %s", plain(d.CheckValid()))
	case ttl <= 0 || ttl > longest:
		return 0, shard.Invalidf(field, "is %v: more than 0 and at most %v are allowed", ttl, longest)
	case ttl%time.Microsecond != 0:
		return 0, shard.Invalidf(field, "must be whole microseconds, not %v", ttl)
	default:
		return limit.Span(ttl.Microseconds()), nil
	}
}

// settleRequest translates and validates. What is settled, the sealed id says.
func settleRequest(sealer *shard.Sealer, policies *policy.Set, m *stintv1.SettleRequest) (shard.Request, error) {
	if err := idProblem(m.IdempotencyId); err != nil {
		return shard.Request{}, err
	}
	r, err := settled(sealer, m)
	if err != nil {
		return shard.Request{}, err
	}
	r.ID = m.IdempotencyId
	return r, settleAction(policies, m, &r)
}

// settled reads what is to be settled.
func settled(sealer *shard.Sealer, m *stintv1.SettleRequest) (shard.Request, error) {
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
	if sealer == nil {
		return shard.Request{}, errNoSealer
	}
	r, err := sealer.Open(id)
	if err != nil {
		return shard.Request{}, shard.Invalidf(field, "%s", err)
	}
	if r.Settlement.Target.Hold != hold {
		return shard.Request{}, shard.Invalidf(field, "is a %s: send it as that", other)
	}
	return r, nil
}

var errNoSealer = &shard.Error{Code: shard.Unavailable,
	Message: "this node does not know yet how the cluster's ids are sealed; nothing was settled; ask again"}

// settleAction reads what to do.
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

// actualCosts is what was spent on each entry; nil: what was taken. The caller names the costs of its own entries, which
// come first; those that were added for the parents spent what they spent.
func actualCosts(policies *policy.Set, entries []shard.Entry, actual []uint64) ([]uint64, error) {
	if len(actual) == 0 || len(actual) == len(entries) {
		return actual, nil
	}
	wrong := shard.Invalidf("commit.actual_cost", "has %d numbers, and %d entries were decided: one for each, or for each "+
		"but those that were added for the parents of their policies", len(actual), len(entries))
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
	if len(all) != len(entries) {
		return nil, wrong
	}
	costs := make([]uint64, len(all))
	for i := range all {
		if all[i].Policy != entries[i].Policy || all[i].Key != entries[i].Key {
			return nil, wrong
		}
		costs[i] = all[i].Cost
	}
	return costs, nil
}
