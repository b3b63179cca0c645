package api

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	keysCountDefault = 100
	keysCountMax     = 1000
	// keysSlices bounds the work of one call that finds little.
	keysSlices = 64
)

// listKeys lists keys shard by shard. A caller that may observe only some keys must ask for those, and sees no others.
func (s observeService) listKeys(ctx context.Context, m *stintv1.ListKeysRequest) (*stintv1.ListKeysResponse, error) {
	q, at, err := s.keysWanted(m)
	caller := callerIn(ctx)
	err = cmp.Or(err, permitted(caller, auth.ObserveKeys,
		auth.Target{Namespace: q.Namespace, Policy: q.Policy, Key: q.Prefix}))
	if err == nil {
		err = s.mayBeListed(q.Namespace)
	}
	if err != nil {
		return nil, err
	}
	shards := s.Shards()
	if shards == 0 {
		return nil, errNoCluster
	}
	response := &stintv1.ListKeysResponse{}
	wanted, first := q.Count, at
	for n := 0; n < keysSlices && int(at.shard) < shards && len(response.Keys) < wanted; n++ {
		q.From, q.Count = at.from, wanted-len(response.Keys)
		listed, err := s.Cluster.ListKeys(ctx, at.shard, q)
		if err != nil && at != first {
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
		at.read(&listed)
	}
	switch {
	case int(at.shard) < shards:
		response.NextCursor = at.String()
	case at.met != slot.All(): //mutant:keys-of-a-moved-slot-left-out
		return nil, errSlotsMoved
	}
	return response, nil
}

// keysCursor is the position of a listing. Its text is the only state between two pages.
type keysCursor struct {
	shard shard.ID // that is read next; beyond the last one: the end
	from  uint64   // in that shard: the Next of what was listed before, or 0
	slotsMet
}

// String implements fmt.Stringer.
func (c keysCursor) String() string {
	return fmt.Sprintf("%d.%x.%s.%s", c.shard, c.from, c.met, c.here)
}

// keysCursorOf reads the output of String; "" is the beginning.
func keysCursorOf(text string) (c keysCursor, err error) {
	if text == "" {
		return c, nil
	}
	parts := strings.Split(text, ".")
	if len(parts) == 4 {
		var met, here bool
		_, err = fmt.Sscanf(text, "%d.%x.", &c.shard, &c.from)
		c.met, met = slot.ParseSet(parts[2])
		c.here, here = slot.ParseSet(parts[3])
		if err == nil && met && here && c.String() == text {
			return c, nil
		}
	}
	return c, shard.Invalidf("cursor", "is none that an answer had as its next_cursor")
}

// read moves on past what a shard has listed.
func (c *keysCursor) read(l *shard.Listed) {
	slots := slot.All()
	if l.Slots != nil {
		slots = *l.Slots
	}
	c.slotsMet.read(&slots, c.from == 0, l.Next == 0)
	if c.from = l.Next; l.Next == 0 {
		c.shard++
	}
}

// keysWanted reads a request: what to list, and where to begin.
func (s observeService) keysWanted(m *stintv1.ListKeysRequest) (q shard.Listing, at keysCursor, err error) {
	namespace, wrongNamespace := namespaceOf(m.Namespace)
	count, wrongCount := countOf("count", m.Count, keysCountDefault, keysCountMax)
	q = shard.Listing{
		Namespace: namespace,
		Policy:    m.Policy,
		Prefix:    m.Prefix,
		Overrides: m.Overrides,
		Leases:    m.Leases,
		Count:     count,
	}
	at, wrongCursor := keysCursorOf(m.Cursor)
	return q, at, cmp.Or(wrongNamespace, invalid("policy", optional(m.Policy, policy.NameProblem)),
		invalid("prefix", optional(m.Prefix, shard.KeyProblem)), wrongCount, wrongCursor)
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
		m.Override = &stintv1.Override{Tier: o.Tier, Limits: tierLimitMessages(o.Limits),
			ExpiresAt: optionalTimestamp(o.Expires)}
	}
	for _, l := range k.Leases {
		m.Leases = append(m.Leases, &stintv1.HeldLease{Holder: l.Holder, Units: l.Units, EndsAt: timestampOf(l.Ends)})
	}
	return m
}
