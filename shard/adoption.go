package shard

import (
	"encoding/binary"
	"errors"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// adoptionFormat is the first byte of the adoption record.
const adoptionFormat = 1

// AdoptPut is the effect by which a shard adopts a revision of the policies: from the entry that carries it on, the
// shard's owners evaluate under that revision or a newer one (SEMANTICS X7). That versions only grow is up to the owner,
// which compares with Adopted before it logs one. It panics on version 0, which is none.
func AdoptPut(r policy.Revision) Put {
	if r.Version == 0 {
		panic("shard: a revision of the policies without a version is adopted")
	}
	b := make([]byte, 0, 1+binary.MaxVarintLen64+len(r.Text))
	b = binary.AppendUvarint(append(b, adoptionFormat), r.Version)
	return Put{Key: string(adoptionRecord), Record: Record{Value: append(b, r.Text...), ForgetAt: limit.Forever}}
}

// Adopted tells which revision the shard has adopted: its version and its text, which is a copy. Version 0: none yet.
func Adopted(view Records) (version uint64, text []byte) {
	version, kept := adopted(view)
	return version, append(text, kept...)
}

// AdoptedVersion is Adopted for who does not need the text, and copies none.
func AdoptedVersion(view Records) uint64 {
	version, _ := adopted(view)
	return version
}

// adopted reads the record. The text is the record's own bytes.
func adopted(view Records) (version uint64, text []byte) {
	record, found := view.Lookup(string(adoptionRecord))
	if !found {
		return 0, nil
	}
	version, text, err := decodeAdoption(record.Value)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	return version, text
}

// decodeAdoption reads the record. The text is the value's own bytes.
func decodeAdoption(value []byte) (version uint64, text []byte, err error) {
	r := reader{rest: value}
	format, version := r.byte(), r.uvarint()
	if r.failed || format != adoptionFormat || version == 0 {
		return 0, nil, errMalformedAdoption
	}
	return version, r.rest, nil
}

var errMalformedAdoption = errors.New("shard: adoption record is malformed or of an unknown format")
