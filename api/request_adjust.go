package api

import (
	"cmp"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// adjustFields has the fields shared by all requests by hand that change what a key has used or may use. id is the
// idempotency id.
type adjustFields struct{ namespace, policy, key, note, id, actor string }

// adjustment begins the request of a change. The caller adds the Op and its arguments. The request is complete, with
// an Adjustment, also beside an error.
func (c adjustFields) adjustment() (shard.Request, error) {
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

// adjustRequest translates and validates an adjustment. The actor goes to the audit log.
func adjustRequest(m *stintv1.AdjustRequest, actor string) (shard.Request, error) {
	r, err := adjustFields{m.Namespace, m.Policy, m.Key, m.Note, m.IdempotencyId, actor}.adjustment()
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

// adjustError shortens the field of an error for requests about one policy and key, which have no list of entries.
func adjustError(err error) error {
	return renamedField(err, func(field string) string { return strings.TrimPrefix(field, "entries[0].") })
}
