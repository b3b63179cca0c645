package api

import (
	"fmt"
	"slices"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Bounds on requests (R23).
const (
	idBytesMax = 64
	entriesMax = 32
	checksMax  = 1000
)

// checkRequest translates and validates a check. It reads only its arguments. The error names the wrong field.
func checkRequest(policies *policy.Set, m *stintv1.CheckRequest) (shard.Request, error) {
	op, err := opOf(m.GetMode())
	if err != nil {
		return shard.Request{}, err
	}
	if err := idProblem(m.GetIdempotencyId()); err != nil {
		return shard.Request{}, err
	}
	r, err := entriesRequest(policies, op, m.GetNamespace(), m.GetEntries())
	if err == nil && op == shard.Partial && len(r.Entries) > len(m.GetEntries()) {
		// Each entry would take the part that fits, so a child could take more than its parent has granted.
		err = shard.Invalidf("mode", "MODE_PARTIAL takes from each key by itself, "+
			"and an entry's policy has a parent, which is decided together with it")
	}
	r.ID = m.GetIdempotencyId()
	return r, err
}

func getRequest(policies *policy.Set, m *stintv1.GetRequest) (shard.Request, error) {
	return entriesRequest(policies, shard.Get, m.Namespace, m.Entries)
}

func opOf(mode stintv1.Mode) (shard.Op, error) {
	switch mode {
	case stintv1.Mode_MODE_UNSPECIFIED, stintv1.Mode_MODE_ENFORCE:
		return shard.Check, nil
	case stintv1.Mode_MODE_PEEK:
		return shard.Peek, nil
	case stintv1.Mode_MODE_COUNT:
		return shard.Count, nil
	case stintv1.Mode_MODE_PARTIAL:
		return shard.Partial, nil
	}
	return 0, shard.Invalidf("mode", "%d is no mode", mode)
}

// entriesRequest translates and validates entries, and adds those of parents. Only then it sets Own. An operation that
// takes from every entry allows no cost of 0.
func entriesRequest(
	policies *policy.Set, op shard.Op, namespace string, entries []*stintv1.Entry,
) (shard.Request, error) {
	r := shard.Request{Op: op}
	var err error
	if r.Namespace, err = namespaceOf(namespace); err != nil {
		return r, err
	}
	if len(entries) == 0 {
		return r, shard.Invalidf("entries", "are missing: a request names at least one policy and key")
	}
	if len(entries) > entriesMax {
		return r, shard.Invalidf("entries", "are %d: at most %d are allowed", len(entries), entriesMax)
	}
	r.Entries = make([]shard.Entry, len(entries))
	for i, m := range entries {
		if r.Entries[i], err = entryOf(i, m); err != nil {
			return r, err
		}
		if first := repeated(r.Entries[:i], r.Entries[i]); first >= 0 {
			return r, shard.Invalidf(fmt.Sprintf("entries[%d]", i), "repeats entries[%d]; add the costs", first)
		}
	}
	if op != shard.Check && op != shard.Peek && op != shard.Get {
		if err := lookProblem(r.Entries); err != nil {
			return r, err
		}
	}
	own := len(r.Entries)
	if r.Entries, err = withParents(policies, r.Entries); len(r.Entries) > own {
		r.Own = own
	}
	r.Revision = policies.Version()
	return r, err
}

// lookProblem refuses entries that only look, in a request that takes from every entry.
func lookProblem(entries []shard.Entry) error {
	for i := range entries {
		if entries[i].Cost == 0 {
			return shard.Invalidf(fmt.Sprintf("entries[%d].cost", i),
				"is 0, which only looks: 1 to %d are allowed here", int64(limit.MaxCost))
		}
	}
	return nil
}

// entryOf translates and validates the i-th entry of a request. An absent cost is 1.
func entryOf(i int, m *stintv1.Entry) (shard.Entry, error) {
	field, problem := entryProblem(m)
	if problem != "" {
		return shard.Entry{}, shard.Invalidf(fmt.Sprintf("entries[%d].%s", i, field), "%s", problem)
	}
	e := shard.Entry{Policy: m.Policy, Key: m.Key, Cost: 1, Tier: m.Tier}
	if m.Cost != nil {
		e.Cost = *m.Cost
	}
	if len(m.Limits) == 0 {
		return e, nil
	}
	var err error
	path := fmt.Sprintf("entries[%d]", i)
	if e.Limits, err = limitsFrom(path, m.Limits); err != nil {
		return e, err
	}
	for j := range e.Limits {
		if e.Limits[j].OnRecovery != policy.RecoverFull {
			return e, shard.Invalidf(fmt.Sprintf("%s.limits[%d].on_recovery", path, j),
				"is for a limit of a policy: a restore keeps the others with --keep ~LABEL")
		}
		if e.Limits[j].OnExceeded != policy.ExceededDeny { //mutant:request-brings-soft-limit
			return e, shard.Invalidf(fmt.Sprintf("%s.limits[%d].on_exceeded", path, j),
				"is for a limit of a policy: one that a request brings along denies")
		}
	}
	return e, nil
}

// entryProblem returns the first wrong field of an entry and its problem, or two empty strings. Limits are checked when
// they are translated.
func entryProblem(m *stintv1.Entry) (field, problem string) {
	inline := len(m.GetLimits()) > 0
	if problem := policy.NameProblem(m.GetPolicy()); problem != "" && !(inline && m.Policy == "") {
		return "policy", problem
	}
	if problem := shard.KeyProblem(m.GetKey()); problem != "" {
		return "key", problem
	}
	if problem := optional(m.Tier, policy.NameProblem); problem != "" {
		return "tier", problem
	}
	if inline && m.Tier != "" {
		return "tier", "is for a policy: the limits of this entry have no tiers"
	}
	if m.Cost != nil && *m.Cost > limit.MaxCost {
		return "cost", fmt.Sprintf("is %d: 0 to %d are allowed", *m.Cost, int64(limit.MaxCost))
	}
	return "", ""
}

// repeated returns the index of an entry with the same policy and key, or -1. Two such entries would charge the same
// limits one after the other, and the answer could not tell them apart.
func repeated(before []shard.Entry, e shard.Entry) int {
	return slices.IndexFunc(before, func(b shard.Entry) bool { return b.Key == e.Key && b.Policy == e.Policy })
}
