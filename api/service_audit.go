package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const (
	auditCountDefault = 100
	auditCountMax     = 1000
)

// audit asks every shard for the changes of its keys, and the system shard for those of policies, and sorts the
// answers. The shards' times come from different clocks, so two changes on different shards at nearly the same time may
// come in the wrong order.
func (s observeService) audit(ctx context.Context, m *stintv1.AuditRequest) (*stintv1.AuditResponse, error) {
	wanted, err := auditWanted(m)
	err = cmp.Or(err, permitted(callerIn(ctx), auth.ObserveKeys,
		auth.Target{Namespace: wanted.namespace, Policy: wanted.policy, Key: wanted.key}))
	if err != nil {
		return nil, err
	}
	if wanted.key != "" {
		if wanted.hash, err = s.Keys.hash(wanted.namespace, wanted.key); err != nil {
			return nil, err
		}
	}
	shards := s.Shards()
	if shards == 0 {
		return nil, errNoCluster
	}
	var newest []shard.AuditRecord
	if callerIn(ctx).May(auth.ObserveKeys, auth.Target{}) { // these changes are about all namespaces
		if newest, err = s.clusterChanges(ctx, &wanted); err != nil {
			return nil, err
		}
		newest = wanted.after.older(newest)
	}
	more := false
	err = everyShard(ctx, s.Decider, shards,
		func(id shard.ID) shard.Request { return shard.Request{Op: shard.ReadAudit, Shard: id} },
		func(d *shard.Decision) {
			var some []shard.AuditRecord
			for _, record := range d.Answer().Audit {
				if wanted.has(&record) {
					some = append(some, record)
				}
			}
			newest = append(newest, wanted.after.older(some)...)
			slices.SortStableFunc(newest, newerFirst)
			more = more || len(newest) > wanted.count
			newest = newest[:min(len(newest), wanted.count)]
		})
	if err != nil {
		return nil, err
	}
	response := &stintv1.AuditResponse{Records: auditMessages(newest, &wanted)}
	if more {
		response.NextCursor = wanted.after.behind(newest).String()
	}
	return response, nil
}

// clusterChanges lists the changes of policies, tokens, secrets and sinks, unless the request names a key or a policy:
// one version may change many policies.
func (s observeService) clusterChanges(ctx context.Context, wanted *auditFilter) ([]shard.AuditRecord, error) {
	if wanted.policy != "" || wanted.key != "" {
		return nil, nil
	}
	applied, err := s.Cluster.PolicyHistory(ctx)
	if err != nil {
		return nil, err
	}
	records, err := s.Cluster.History(ctx)
	for _, c := range applied {
		c.Before, c.After = fmt.Sprintf("version %d", c.Version-1), fmt.Sprintf("version %d", c.Version)
		records = append(records, c.AuditRecord)
	}
	return records, err
}

// newerFirst sorts newest first; the changes of one shard keep the order in which they were made.
func newerFirst(a, b shard.AuditRecord) int {
	return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Position.Shard, b.Position.Shard),
		cmp.Compare(b.Position.Epoch, a.Position.Epoch), cmp.Compare(b.Position.Seq, a.Position.Seq))
}

// auditFilter selects changes; "" matches all.
type auditFilter struct {
	namespace, policy, key string // namespace "" matches none
	after                  auditCursor
	hash                   string // the key's form in records since the namespace's keys are hashed, else the key
	count                  int    // records of a page
}

// auditWanted reads a request. It does not set the hash.
func auditWanted(m *stintv1.AuditRequest) (f auditFilter, err error) {
	f = auditFilter{policy: m.Policy, key: m.Key}
	namespace, wrongNamespace := namespaceOf(m.Namespace)
	count, wrongCount := countOf("count", m.Count, auditCountDefault, auditCountMax)
	after, wrongCursor := parseAuditCursor(m.Cursor)
	f.namespace, f.count, f.after = namespace, count, after
	return f, cmp.Or(wrongNamespace, invalid("policy", optional(m.Policy, policy.NameProblem)),
		invalid("key", optional(m.Key, shard.KeyProblem)), wrongCount, wrongCursor)
}

func (f *auditFilter) has(r *shard.AuditRecord) bool {
	return r.Namespace == f.namespace && (f.policy == "" || r.Policy == f.policy) &&
		(f.key == "" || r.Key == f.key || r.Key == f.hash)
}

// auditMessages translates records, and changes them: a hash in place of the requested key is shown as that key.
func auditMessages(records []shard.AuditRecord, f *auditFilter) []*stintv1.AuditRecord {
	messages := make([]*stintv1.AuditRecord, len(records))
	for i := range records {
		r := &records[i]
		if f.key != "" {
			r.Key = f.key
		}
		messages[i] = auditMessage(r)
		messages[i].Position = positionOf(r.Position)
	}
	return messages
}

// auditMessage translates a record, without its position.
func auditMessage(r *shard.AuditRecord) *stintv1.AuditRecord {
	return &stintv1.AuditRecord{
		At:        timestampOf(r.At),
		Actor:     r.Actor,
		Namespace: r.Namespace,
		Policy:    r.Policy,
		Key:       r.Key,
		Limit:     r.Limit,
		Deed:      r.Deed,
		Before:    r.Before,
		After:     r.After,
		Note:      r.Note,
	}
}
