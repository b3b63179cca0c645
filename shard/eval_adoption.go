package shard

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// renumbered is when a revision last changed the numbers of a limit, under any tier.
type renumbered struct {
	policy, limit string
	at            limit.Time
}

// Adopt returns the effects by which a shard adopts a revision of the policies. From the entry that carries them, the
// shard's owners evaluate under that revision or a newer one (X7). The owner must ensure that versions only grow, by
// comparing with Adopted before it logs one. It panics on version 0, which means none.
//
// The revision follows the one in the view. before are that one's policies, or nil if the caller has not parsed them.
// The first effect records for each limit when its numbers last changed: at that instant, units counted under other
// numbers are carried over, however much later a request reads the key. The other effects bring up the keys with
// leases: their records may end before a request reads them.
func Adopt(view View, before *policy.Set, r policy.Revision, at Stamp) []Put {
	version, text, known, err := adopted(view)
	if version == 0 && err == nil {
		return []Put{adoptPut(r, nil)}
	}
	if before == nil && err == nil {
		before, _ = policy.Parse("", text)
	}
	if before == nil { // what cannot be read may have allowed leases
		before, known = policy.NewSet(nil), append(known, renumbered{at: at.Now})
	}
	changes := revisedBy(before, r.Set, known, at.Now)
	b := batch{view: view, policies: r.Set, at: at}
	b.useInitial()
	leasedKeys{&b}.adopt(before, known, changes)
	return append([]Put{adoptPut(r, changes)}, b.puts()...)
}

// isOfLeases reports whether it tells until when a policy has allowed leases that allows none any more. It is kept for
// as long as one may live.
func (c renumbered) isOfLeases() bool { return c.policy == "" }

// revisedBy returns when the numbers of the limits of a set last changed, if set replaces before now.
func revisedBy(before, set *policy.Set, known []renumbered, now limit.Time) (changes []renumbered) {
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		old, _ := before.Lookup(name)
		for i := range p.Limits {
			c := renumbered{name, p.Limits[i].Name, now}
			if old != nil && p.SameNumbers(old, c.limit) {
				j := slices.IndexFunc(known, func(k renumbered) bool { return k.policy == name && k.limit == c.limit })
				if j < 0 {
					continue
				}
				c.at = known[j].at //mutant:every-revision-changes-all
			}
			changes = append(changes, c)
		}
	}
	if until := leasedUntil(before, set, known, now); until != 0 && now-until <= limit.Time(policy.LeaseForMax) {
		changes = append(changes, renumbered{at: until})
	}
	return changes
}

// leasedUntil returns until when a policy has allowed leases that allows none any more, if set replaces before now, or
// 0 if the shard does not know of one.
func leasedUntil(before, set *policy.Set, known []renumbered, now limit.Time) (until limit.Time) {
	for _, c := range known {
		if c.isOfLeases() {
			until = max(until, c.at)
		}
	}
	for _, name := range before.Names() {
		old, _ := before.Lookup(name)
		if p, _ := set.Lookup(name); old.Lease != nil && (p == nil || p.Lease == nil) {
			until = now //mutant:lease-of-a-former-policy-missed
		}
	}
	return until
}

// revisedFrom is revisedBy for the texts of two revisions. A former one that cannot be read had no policies.
func revisedFrom(before, text []byte, known []renumbered, now limit.Time) ([]renumbered, error) {
	set, err := policy.Parse("", text)
	if err != nil {
		return nil, err
	}
	old, err := policy.Parse("", before)
	if err != nil {
		old = policy.NewSet(nil)
	}
	return revisedBy(old, set, known, now), nil
}

// mergeRenumbered adds when limits got their numbers to what is known of that. It is the later instant.
func mergeRenumbered(known, others []renumbered) []renumbered {
	for _, o := range others {
		i := slices.IndexFunc(known, func(k renumbered) bool { return k.policy == o.policy && k.limit == o.limit })
		if i < 0 {
			known = append(known, o)
		} else {
			known[i].at = max(known[i].at, o.at) //mutant:revision-before-the-newest-count
		}
	}
	return known
}

// adoptPut writes the record: format, version, the limits with numbers changed by a revision, text.
func adoptPut(r policy.Revision, changes []renumbered) Put {
	if r.Version == 0 {
		panic("shard: a revision of the policies without a version is adopted")
	}
	b := make([]byte, 0, 1+2*binary.MaxVarintLen64+len(r.Text))
	b = appendNumbers(append(b, recordFormat), r.Version, uint64(len(changes)))
	for _, c := range changes {
		b = binary.AppendUvarint(appendString(appendString(b, c.policy), c.limit), uint64(c.at))
	}
	return Put{Key: string(adoptionRecord), Record: Record{Value: append(b, r.Text...), ForgetAt: limit.Forever}}
}

// revisions are the changes that the shard has adopted, loaded when a request of a batch needs them.
type revisions struct {
	known []renumbered
	read  bool
}

// of returns when a revision last changed the numbers of a limit, or limit.Forever if the shard does not know.
func (r *revisions) of(view Records, policy, name string) limit.Time {
	if !r.read {
		_, _, r.known, _ = adopted(view)
		r.read = true
	}
	for i := range r.known {
		if c := &r.known[i]; c.policy == policy && c.limit == name {
			return c.at
		}
	}
	return limit.Forever
}

// Adopted returns the version and a copy of the text of the revision that the shard has adopted. Version 0 means none
// yet. The error means that there is an unreadable record.
func Adopted(view Records) (version uint64, text []byte, err error) {
	version, kept, _, err := adopted(view)
	return version, append(text, kept...), err
}

// AdoptedVersion is Adopted without the text. It also returns 0 if the record cannot be read.
func AdoptedVersion(view Records) uint64 {
	version, _, _, _ := adopted(view)
	return version
}

// adopted reads the record. The text shares the record's memory.
func adopted(view Records) (version uint64, text []byte, changes []renumbered, err error) {
	record, found := view.Lookup(string(adoptionRecord))
	if !found {
		return 0, nil, nil, nil
	}
	return decodeAdoption(record.Value)
}

// decodeAdoption reads the record. The text shares the memory of value.
func decodeAdoption(value []byte) (version uint64, text []byte, changes []renumbered, err error) {
	c, format := codec.Over(value), byte(0)
	codec.Byte(&c, &format)
	c.Uint64(&version)
	codec.List(&c, &changes, math.MaxInt, func(one *renumbered) {
		c.Text(&one.policy, &one.limit)
		codeTime(&c, &one.at)
		one.policy, one.limit = strings.Clone(one.policy), strings.Clone(one.limit)
	})
	if c.Failed() || format != recordFormat || version == 0 {
		return 0, nil, nil, errors.New("shard: adoption record is malformed or of an unknown format")
	}
	return version, c.Rest(), changes, nil
}
