package api

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const (
	listCountDefault = 100
	listCountMax     = 1000
	// listSlices bounds the work of one call that finds little.
	listSlices = 64
)

// listKeys lists keys shard by shard. A caller who may observe only some keys must ask for those, and sees no others.
func (s observeService) listKeys(ctx context.Context, m *stintv1.ListKeysRequest) (*stintv1.ListKeysResponse, error) {
	q, at, err := s.listWanted(m)
	if err != nil {
		return nil, err
	}
	caller := callerIn(ctx)
	if on := (auth.Target{Namespace: q.Namespace, Policy: q.Policy, Key: q.Prefix}); !caller.May(auth.ObserveKeys, on) {
		return nil, auth.NotGrantedError(auth.ObserveKeys)
	}
	if err := s.mayBeListed(q.Namespace); err != nil {
		return nil, err
	}
	shards := s.Shards()
	if shards == 0 {
		return nil, errNoCluster
	}
	response := &stintv1.ListKeysResponse{}
	wanted, first, from := q.Count, at, q.From
	for range listSlices {
		if int(at) >= shards {
			return response, nil
		}
		q.Count = wanted - len(response.Keys)
		listed, err := s.Cluster.ListKeys(ctx, at, q)
		if err != nil && (at > first || q.From > from) {
			break // what was read so far is an answer, and another node may have the rest
		} else if err != nil {
			return nil, err
		}
		for i := range listed.Keys {
			k := &listed.Keys[i]
			if caller.May(auth.ObserveKeys, auth.Target{Namespace: q.Namespace, Policy: k.Policy, Key: k.Key}) {
				response.Keys = append(response.Keys, keptKeyOf(k))
			}
		}
		if q.From = listed.Next; q.From == 0 {
			at++
		}
		if len(response.Keys) >= wanted {
			break
		}
	}
	if int(at) < shards {
		response.NextCursor = strconv.FormatUint(uint64(at), 10) + "." + strconv.FormatUint(q.From, 16)
	}
	return response, nil
}

// listWanted reads a request: what to list, and the shard to begin with.
func (s observeService) listWanted(m *stintv1.ListKeysRequest) (q shard.Listing, at shard.ID, err error) {
	namespace, wrongNamespace := namespaceOf(m.Namespace)
	count, wrongCount := countOf("count", m.Count, listCountDefault, listCountMax)
	q = shard.Listing{Namespace: namespace, Policy: m.Policy, Prefix: m.Prefix, Overrides: m.Overrides, Count: count}
	err = cmp.Or(wrongNamespace, invalid("policy", optional(m.Policy, policy.NameProblem)),
		invalid("prefix", optional(m.Prefix, shard.KeyProblem)), wrongCount)
	if err != nil {
		return q, 0, err
	}
	if m.Cursor == "" {
		return q, 0, nil
	}
	id, place, _ := strings.Cut(m.Cursor, ".")
	first, problem := strconv.ParseUint(id, 10, 31)
	if problem == nil {
		q.From, problem = strconv.ParseUint(place, 16, 64)
	}
	if problem != nil {
		return q, 0, shard.Invalidf("cursor", "is none that an answer had as its next_cursor")
	}
	return q, shard.ID(first), nil
}

// mayBeListed refuses a namespace of hashed keys, which cannot be listed. It runs after the check of the grant, so that
// it reveals nothing to other callers.
func (s observeService) mayBeListed(namespace string) error {
	by, unknown := s.Keys(namespace, false)
	if unknown != nil {
		return unknown
	}
	if by != nil {
		return shard.Invalidf("namespace", "%q hashes its keys: they cannot be listed", namespace)
	}
	return nil
}

func keptKeyOf(k *shard.ListedKey) *stintv1.KeptKey {
	m := &stintv1.KeptKey{Policy: k.Policy, Key: k.Key}
	if o := k.Override; o != nil {
		m.Override = &stintv1.Override{Tier: o.Tier, Limits: tierLimitMessages(o.Limits), ExpiresAt: optionalTimestamp(o.Expires)}
	}
	return m
}
