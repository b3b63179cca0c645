package shard

import (
	"encoding/binary"
	"errors"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// adoptionFormat is the first byte of the adoption record.
const adoptionFormat = 1

// AdoptPut returns the effect by which a shard adopts a revision of the policies. From the entry that carries it, the
// shard's owners evaluate under that revision or a newer one (X7). The owner must ensure that versions only grow, by
// comparing with Adopted before it logs one. It panics on version 0, which means none.
func AdoptPut(r policy.Revision) Put {
	if r.Version == 0 {
		panic("shard: a revision of the policies without a version is adopted")
	}
	b := make([]byte, 0, 1+binary.MaxVarintLen64+len(r.Text))
	b = binary.AppendUvarint(append(b, adoptionFormat), r.Version)
	return Put{Key: string(adoptionRecord), Record: Record{Value: append(b, r.Text...), ForgetAt: limit.Forever}}
}

// Adopted returns the version and a copy of the text of the revision that the shard has adopted. Version 0: none yet. The
// error means that there is a record which cannot be read.
func Adopted(view Records) (version uint64, text []byte, err error) {
	version, kept, err := adopted(view)
	return version, append(text, kept...), err
}

// AdoptedVersion is like Adopted, without copying the text. It returns 0 also if the record cannot be read.
func AdoptedVersion(view Records) uint64 {
	version, _, _ := adopted(view)
	return version
}

// adopted reads the record. The text shares the record's memory.
func adopted(view Records) (version uint64, text []byte, err error) {
	record, found := view.Lookup(string(adoptionRecord))
	if !found {
		return 0, nil, nil
	}
	return decodeAdoption(record.Value)
}

// decodeAdoption reads the record. The text shares the memory of value.
func decodeAdoption(value []byte) (version uint64, text []byte, err error) {
	r := reader{rest: value}
	format, version := r.byte(), r.uvarint()
	if r.failed || format != adoptionFormat || version == 0 {
		return 0, nil, errMalformedAdoption
	}
	return version, r.rest, nil
}

var errMalformedAdoption = errors.New("shard: adoption record is malformed or of an unknown format")
