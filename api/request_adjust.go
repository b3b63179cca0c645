package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// changed has the fields shared by all requests by hand that change what a key has used or may use.
type changed struct{ namespace, policy, key, note, id, actor string }

// adjustment begins the request of a change. The caller adds the Op and its arguments.
func (c changed) adjustment() (shard.Request, error) {
	namespace, err := namespaceOf(c.namespace)
	err = cmp.Or(invalid("policy", policy.NameProblem(c.policy)), invalid("key", shard.KeyProblem(c.key)),
		invalid("note", noteProblem(c.note)), idProblem(c.id), err)
	return shard.Request{
		Namespace:  namespace,
		Entries:    []shard.Entry{{Policy: c.policy, Key: c.key, Cost: 1}},
		ID:         c.id,
		Adjustment: &shard.Adjustment{Actor: c.actor, Note: c.note},
	}, err
}

func noteProblem(note string) string {
	if problem := lengthProblem(note, noteBytesMax); problem != "" {
		return problem
	}
	if strings.ContainsFunc(note, unicode.IsControl) {
		return "must have no control characters"
	}
	return ""
}

// adjustRequest translates and validates an adjustment. The actor goes to the audit log.
func adjustRequest(m *stintv1.AdjustRequest, actor string) (shard.Request, error) {
	r, err := changed{m.Namespace, m.Policy, m.Key, m.Note, m.IdempotencyId, actor}.adjustment()
	if err = cmp.Or(err, invalid("limit", optional(m.Limit, policy.NameProblem))); err != nil {
		return r, err
	}
	r.Limit = m.Limit
	switch op := m.Op.(type) {
	case *stintv1.AdjustRequest_Reset_:
		r.Op = shard.Reset
	case *stintv1.AdjustRequest_SetUsed:
		if op.SetUsed > limit.MaxQuota {
			return r, shard.Invalidf("set_used", "is %d: at most %d are allowed", op.SetUsed, int64(limit.MaxQuota))
		}
		r.Op, r.Adjustment.Amount = shard.SetUsed, int64(op.SetUsed)
	case *stintv1.AdjustRequest_AddUsed:
		if n := op.AddUsed; n == 0 || n > limit.MaxCost || n < -limit.MaxCost {
			return r, shard.Invalidf("add_used", "is %d: 1 to %d are allowed, or as many taken away",
				n, int64(limit.MaxCost))
		}
		r.Op, r.Adjustment.Amount = shard.AddUsed, op.AddUsed
	case *stintv1.AdjustRequest_BlockUntil:
		r.Op = shard.Block
		if r.Adjustment.Until, err = instantOf("block_until", op.BlockUntil); err != nil {
			return r, err
		}
	case *stintv1.AdjustRequest_Unblock:
		r.Op = shard.Unblock
	default:
		return r, shard.Invalidf("op", "is missing: reset, set_used, add_used, block_until or unblock")
	}
	if m.Limit != "" && (r.Op == shard.Block || r.Op == shard.Unblock) {
		return r, shard.Invalidf("limit", "is %q: a block is one of the policy, not of a limit", m.Limit)
	}
	return r, nil
}

// overrideLimitsMax is the largest number of limits in a policy.
const overrideLimitsMax = 16

// putOverrideRequest translates and validates an override. The shard checks that the policy has the tier and the
// limits.
func putOverrideRequest(m *stintv1.PutOverrideRequest, actor string) (shard.Request, error) {
	r, err := changed{m.Namespace, m.Policy, m.Key, m.Note, m.IdempotencyId, actor}.adjustment()
	if err = cmp.Or(err, invalid("tier", optional(m.Tier, policy.NameProblem))); err != nil {
		return r, err
	}
	if m.Tier == "" && len(m.Limits) == 0 {
		return r, shard.Invalidf("tier", "is missing, and so are limits: an override changes at least one of them")
	}
	if len(m.Limits) > overrideLimitsMax {
		return r, shard.Invalidf("limits", "are %d: at most %d are allowed", len(m.Limits), overrideLimitsMax)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Limits)) {
		if problem := policy.NameProblem(name); problem != "" {
			return r, shard.Invalidf("limits", "has a name that %s", problem)
		}
		if l := m.Limits[name]; l == nil || l.Quota == nil && l.Refill == nil && l.Rate == nil {
			return r, shard.Invalidf("limits."+name, "changes nothing: quota, refill or rate")
		}
	}
	r.Op = shard.PutOverride
	r.Adjustment.Override = &policy.Override{Tier: m.Tier}
	if len(m.Limits) > 0 {
		r.Adjustment.Override.Limits = tierLimitsFrom(m.Limits)
	}
	if m.ExpiresAt != nil {
		r.Adjustment.Override.Expires, err = instantOf("expires_at", m.ExpiresAt)
	}
	return r, err
}

func deleteOverrideRequest(m *stintv1.DeleteOverrideRequest, actor string) (shard.Request, error) {
	r, err := changed{m.Namespace, m.Policy, m.Key, m.Note, m.IdempotencyId, actor}.adjustment()
	r.Op = shard.DeleteOverride
	return r, err
}

// ofAdjust shortens the field of an error for requests about one policy and key, which have no list of entries.
func ofAdjust(err error) error {
	return renamed(err, func(field string) string { return strings.TrimPrefix(field, "entries[0].") })
}

// instantOf reads an instant after 1970, rounded up to a microsecond: a block is never shorter than requested.
func instantOf(field string, t *timestamppb.Timestamp) (limit.Time, error) {
	switch {
	case t == nil:
		return 0, shard.Invalidf(field, "is missing")
	case t.CheckValid() != nil:
		return 0, shard.Invalidf(field, "is no instant: %s", plain(t.CheckValid()))
	case t.Seconds <= 0:
		return 0, shard.Invalidf(field, "is %s: it must lie ahead", t.AsTime().Format("2006-01-02T15:04:05Z"))
	}
	return limit.Time(t.Seconds)*microsPerSecond + limit.Time((t.Nanos+999)/1000), nil
}
