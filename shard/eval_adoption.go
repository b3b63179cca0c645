package shard

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

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
		before, known = policy.NewSet(nil), append(known, numberChange{at: at.Now})
	}
	changes := revisedBy(before, r.Set, known, at.Now)
	b := batch{view: view, policies: r.Set, at: at}
	b.useInitial()
	leasedKeys{&b}.adopt(before, known, changes)
	return append([]Put{adoptPut(r, changes)}, b.puts()...)
}

// adoptPut writes the record: format, version, the limits with numbers changed by a revision, text.
func adoptPut(r policy.Revision, changes []numberChange) Put {
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
func adopted(view Records) (version uint64, text []byte, changes []numberChange, err error) {
	record, found := view.Lookup(string(adoptionRecord))
	if !found {
		return 0, nil, nil, nil
	}
	return decodeAdoption(record.Value)
}

// decodeAdoption reads the record. The text shares the memory of value.
func decodeAdoption(value []byte) (version uint64, text []byte, changes []numberChange, err error) {
	c, format := codec.Over(value), byte(0)
	codec.Byte(&c, &format)
	c.Uint64(&version)
	codec.List(&c, &changes, math.MaxInt, func(one *numberChange) {
		c.Text(&one.policy, &one.limit)
		codeTime(&c, &one.at)
		one.policy, one.limit = strings.Clone(one.policy), strings.Clone(one.limit)
	})
	if c.Failed() || format != recordFormat || version == 0 {
		return 0, nil, nil, errors.New("shard: adoption record is malformed or of an unknown format")
	}
	return version, c.Rest(), changes, nil
}
