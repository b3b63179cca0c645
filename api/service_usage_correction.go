package api

import (
	"cmp"
	"context"
	"fmt"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// correctUsage corrects a bill by hand. The answer has the record as ListUsage shows it.
func (s limitService) correctUsage(ctx context.Context, who string, m *stintv1.CorrectUsageRequest) (
	*stintv1.CorrectUsageResponse, error) {
	r, err := correctionRequest(m, who)
	if err == nil {
		err = grantedRequest(callerIn(ctx), auth.Correct, &r)
	}
	if err != nil {
		return nil, err
	}
	if s.Shards() == 0 {
		return nil, errNoCluster
	}
	ledger, err := s.Cluster.Ledger(ctx) // before the correction, like the hash: the record's id depends on both
	if err != nil {
		return nil, err
	}
	key, err := s.Keys.hash(r.Namespace, m.Key)
	if err != nil {
		return nil, err
	}
	if !m.New { //mutant:correction-bills-a-stranger
		query := shard.UsageQuery{Policy: m.Policy, Key: key}
		page, _, err := usagePage(ctx, s.Decider, r.Namespace, shard.Of(s.Slots(), r.Namespace, key), query)
		if err == nil && len(page.Periods) == 0 {
			err = &shard.Error{Code: shard.Conflict, Field: "new",
				Message: fmt.Sprintf("policy %q has never billed this key: if it is not mistyped, "+
					"say that it is new (stint usage correct --new); nothing was corrected", m.Policy)}
		}
		if err != nil {
			return nil, err
		}
	}
	d, err := decide(ctx, s.Decider, r)
	if err != nil {
		return nil, adjustError(err)
	}
	u, ok := shard.CorrectedBill(&r, d)
	if !ok {
		return &stintv1.CorrectUsageResponse{}, nil
	}
	u.Key = key
	return &stintv1.CorrectUsageResponse{Record: usageMessage(ledger, &u, m.Key, d.DecidedAt, s.policies())}, nil
}

// correctionRequest translates and validates a correction. The actor goes to the audit log.
func correctionRequest(m *stintv1.CorrectUsageRequest, actor string) (shard.Request, error) {
	r, err := adjustFields{m.Namespace, m.Policy, m.Key, m.Note, m.IdempotencyId, actor}.adjustment()
	if err = cmp.Or(err, invalid("meter", optional(m.Meter, policy.NameProblem))); err != nil {
		return r, err
	}
	if problem := shard.CorrectionProblem(m.Period, m.Units, m.Note); problem != nil {
		return r, problem
	}
	r.Op, r.Adjustment.Amount = shard.CorrectUsage, m.Units
	r.System = &shard.SystemTerms{Correction: &shard.Correction{Meter: m.Meter, Period: m.Period}}
	return r, nil
}
