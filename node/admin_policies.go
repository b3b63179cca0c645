package node

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Apply implements api.ClusterAdmin: the set is in force once it is committed; shards adopt it with their next batch.
func (a *admin) Apply(
	ctx context.Context, set *policy.Set, expected *uint64, rekey bool, who, note string,
) (uint64, []uint32, error) {
	current, err := a.view.policies.fetch(ctx)
	if err != nil {
		return 0, nil, err
	}
	if expected != nil && *expected != current.version {
		return 0, nil, api.VersionConflict(*expected, current.version)
	}

	text := policy.Format(set)
	if bytes.Equal(text, current.text) {
		return current.version, a.pendingShards(current.version), nil
	}
	if !rekey && current.version > 0 { //mutant:rekeyed-unasked
		if namespaces := current.value.Set.Rekeyed(set); len(namespaces) > 0 {
			return 0, nil, api.RekeyNeeded(namespaces)
		}
	}
	if drawn, err := a.view.drawKeySecret(ctx, set); err != nil {
		return 0, nil, err
	} else if drawn { // before the policies are in force, so that nodes know it by then
		a.tellOthers()
	}
	if current.version > 0 {
		if err := a.keep(ctx, current.document()); err != nil { // the change need not wait for it
			a.logger.Warn("the policies in force are replaced and not kept for a rollback", "version", current.version,
				"error", err)
		}
	}
	version, err := a.view.policies.swap(ctx, adjustmentBy(who, note), current.version, &policy.Revision{Text: text})
	if err != nil {
		return 0, nil, err
	}
	a.logger.Info("policies applied", "version", version, "actor", who, "note", note)
	a.tellOthers()
	return version, a.pendingShards(version), nil
}

// pendingShards lists the data shards that have not yet adopted a version of the policies, as far as this node knows.
func (a *admin) pendingShards(version uint64) (pending []uint32) {
	reports := a.reporter.reports()
	for id := range uint32(a.view.shards()) {
		if _, r := ownerReport(reports, shard.ID(id)); r == nil || r.PoliciesVersion < version {
			pending = append(pending, id)
		}
	}
	return pending
}

// PolicyHistory implements api.ClusterAdmin.
func (a *admin) PolicyHistory(ctx context.Context) ([]shard.DocumentChange, error) {
	histories, err := a.documents.fetchAll(ctx, shard.HistoryOf(placement.PoliciesDocument))
	if err != nil {
		return nil, err
	}
	return shard.DocumentChanges(histories[0].Document)
}

// keptSets is how many earlier versions of the policies are kept, beside the one in force.
const keptSets = 20

// keptDocument names the document that keeps a version of the policies. Each replaces the one 20 versions before it.
func keptDocument(version uint64) string {
	return fmt.Sprintf("%s/kept/%d", placement.PoliciesDocument, version%keptSets)
}

// keep writes down the policies that are about to be replaced. A policies file is mostly repetition: 192 KiB of it take
// about 10.
func (a *admin) keep(ctx context.Context, d shard.Document) error {
	body := encodeKept(d)
	if len(body) > shard.MaxDocumentBytes {
		return fmt.Errorf("they have %d bytes, packed: at most %d are kept", len(body), shard.MaxDocumentBytes)
	}
	slot := newDocument(documentConfig[shard.Document]{
		of:   a.documents,
		name: keptDocument(d.Version),
		what: "kept policies",
		decode: func(kept shard.Document) (*shard.Document, error) {
			before, _ := decodeKept(kept) // one that cannot be read is replaced
			return &before, nil
		},
		encode: func(*shard.Document) []byte { return body },
	})
	return slot.update(ctx, nil, func(kept known[shard.Document]) (*shard.Document, error) {
		if kept.value.Version >= d.Version {
			return nil, nil // another node keeps it, or its successor
		}
		return &d, nil
	})
}

// KeptPolicies implements api.ClusterAdmin.
func (a *admin) KeptPolicies(ctx context.Context) ([]shard.Document, error) {
	names := []string{placement.PoliciesDocument}
	for slot := range uint64(keptSets) {
		names = append(names, keptDocument(slot))
	}
	documents, err := a.documents.fetchAll(ctx, names...)
	if err != nil {
		return nil, err
	}
	kept := []shard.Document{{Version: documents[0].Version, Body: documents[0].Body}}
	for i, d := range documents[1:] {
		if d.Version == 0 {
			continue
		}
		before, err := decodeKept(d.Document)
		if err != nil { // it can be missed
			a.logger.Warn("an earlier version of the policies cannot be read", "document", names[i+1], "error", err)
			continue
		}
		// A version that could not be kept leaves the one of long ago in its slot.
		if before.Version < kept[0].Version && before.Version+keptSets >= kept[0].Version {
			kept = append(kept, shard.Document{Version: before.Version, Body: before.Body})
		}
	}
	slices.SortFunc(kept, func(a, b shard.Document) int { return cmp.Compare(a.Version, b.Version) })
	return kept, nil
}

// encodeKept writes a version of the policies: the version, then the text, packed (RFC 1951).
func encodeKept(d shard.Document) []byte {
	b := bytes.NewBuffer(binary.AppendUvarint(nil, d.Version))
	packed, _ := flate.NewWriter(b, flate.BestCompression) // the level is valid, and a buffer takes everything
	_, _ = packed.Write(d.Body)
	_ = packed.Close()
	return b.Bytes()
}

var errMalformedKept = errors.New("kept policies are malformed")

// decodeKept reads a version of the policies. Its text has been a document.
func decodeKept(d shard.Document) (kept shard.Document, err error) {
	version, n := binary.Uvarint(d.Body)
	if n <= 0 || version == 0 {
		return kept, errMalformedKept
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(d.Body[n:])), shard.MaxDocumentBytes+1))
	if err != nil || len(text) > shard.MaxDocumentBytes {
		return kept, errMalformedKept
	}
	return shard.Document{Version: version, Body: text}, nil
}
