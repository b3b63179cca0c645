package api

import (
	"fmt"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Bounds on what arrives (DESIGN.md, section 8).
const (
	idBytesMax = 64
	entriesMax = 32
	checksMax  = 1000
)

// checkRequest translates and validates. It reads nothing but its argument; the error names the field at fault.
func checkRequest(m *stintv1.CheckRequest) (shard.Request, error) {
	op, err := opOf(m.Mode)
	if err != nil {
		return shard.Request{}, err
	}
	if problem := lengthProblem(m.IdempotencyId, idBytesMax); problem != "" {
		return shard.Request{}, shard.Invalidf("idempotency_id", "%s", problem)
	}
	r, err := entriesRequest(op, m.Namespace, m.Entries)
	r.ID = m.IdempotencyId
	return r, err
}

func getRequest(m *stintv1.GetRequest) (shard.Request, error) {
	return entriesRequest(shard.Get, m.Namespace, m.Entries)
}

func adjustRequest(m *stintv1.AdjustRequest) (shard.Request, error) {
	if err := adjustProblem(m); err != nil {
		return shard.Request{}, err
	}
	namespace, err := namespaceOf(m.Namespace)
	return shard.Request{
		Op:        shard.Reset,
		Namespace: namespace,
		Entries:   []shard.Entry{{Policy: m.Policy, Key: m.Key, Cost: 1}},
		Limit:     m.Limit,
		ID:        m.IdempotencyId,
	}, err
}

func adjustProblem(m *stintv1.AdjustRequest) error {
	if err := adjustOpProblem(m); err != nil {
		return err
	}
	for _, field := range [...]struct{ name, problem string }{
		{"policy", policy.NameProblem(m.Policy)},
		{"key", shard.KeyProblem(m.Key)},
		{"limit", optional(m.Limit, policy.NameProblem)},
		{"idempotency_id", lengthProblem(m.IdempotencyId, idBytesMax)},
	} {
		if field.problem != "" {
			return shard.Invalidf(field.name, "%s", field.problem)
		}
	}
	if m.Note != "" {
		return notBuilt("note: the audit log")
	}
	return nil
}

func adjustOpProblem(m *stintv1.AdjustRequest) error {
	switch m.Op.(type) {
	case *stintv1.AdjustRequest_Reset_:
		return nil
	case nil:
		return shard.Invalidf("op", "is missing; reset puts the limits back to rest")
	case *stintv1.AdjustRequest_SetUsed:
		return notBuilt("set_used")
	case *stintv1.AdjustRequest_AddUsed:
		return notBuilt("add_used")
	case *stintv1.AdjustRequest_BlockUntil:
		return notBuilt("block_until")
	}
	return notBuilt("unblock")
}

func opOf(mode stintv1.Mode) (shard.Op, error) {
	switch mode {
	case stintv1.Mode_MODE_UNSPECIFIED, stintv1.Mode_MODE_ENFORCE:
		return shard.Check, nil
	case stintv1.Mode_MODE_PEEK:
		return shard.Peek, nil
	case stintv1.Mode_MODE_COUNT, stintv1.Mode_MODE_PARTIAL:
		return 0, notBuilt("mode: " + mode.String())
	}
	return 0, shard.Invalidf("mode", "%d is no mode", mode)
}

func entriesRequest(op shard.Op, namespace string, entries []*stintv1.Entry) (shard.Request, error) {
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
	return r, nil
}

func entryOf(i int, m *stintv1.Entry) (shard.Entry, error) {
	field, problem := entryProblem(m)
	if problem != "" {
		return shard.Entry{}, shard.Invalidf(fmt.Sprintf("entries[%d].%s", i, field), "%s", problem)
	}
	if len(m.Limits) > 0 {
		return shard.Entry{}, notBuilt(fmt.Sprintf("entries[%d].limits: a limit inside a request", i))
	}
	e := shard.Entry{Policy: m.Policy, Key: m.Key, Cost: 1, Tier: m.Tier}
	if m.Cost != nil {
		e.Cost = *m.Cost
	}
	return e, nil
}

func entryProblem(m *stintv1.Entry) (field, problem string) {
	if problem := policy.NameProblem(m.GetPolicy()); problem != "" && len(m.GetLimits()) == 0 {
		return "policy", problem
	}
	if problem := shard.KeyProblem(m.GetKey()); problem != "" {
		return "key", problem
	}
	if problem := optional(m.Tier, policy.NameProblem); problem != "" {
		return "tier", problem
	}
	if m.Cost != nil && (*m.Cost == 0 || *m.Cost > limit.MaxCost) {
		return "cost", fmt.Sprintf("is %d: 1 to %d are allowed", *m.Cost, int64(limit.MaxCost))
	}
	return "", ""
}

// repeated finds an entry of the same policy and key; -1 none. Two would charge the limits of one key one after the
// other, and the answer could not tell them apart.
func repeated(before []shard.Entry, e shard.Entry) int {
	for i := range before {
		if before[i].Key == e.Key && before[i].Policy == e.Policy {
			return i
		}
	}
	return -1
}

func namespaceOf(namespace string) (string, error) {
	if namespace == "" {
		return shard.DefaultNamespace, nil
	}
	if problem := policy.NameProblem(namespace); problem != "" {
		return "", shard.Invalidf("namespace", "%s", problem)
	}
	return namespace, nil
}

func optional(text string, problemOf func(string) string) string {
	if text == "" {
		return ""
	}
	return problemOf(text)
}

func lengthProblem(text string, bytesMax int) string {
	if len(text) > bytesMax {
		return fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), bytesMax)
	}
	return ""
}
