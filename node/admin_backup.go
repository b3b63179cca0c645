package node

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
)

// backupDocument is the document that says which backup is the newest.
const backupDocument = "backup"

// backupRecord is its text.
type backupRecord struct {
	Begun int64 // Unix microseconds
	Bytes uint64
}

func newBackupDocument(of *documents) *document[backupRecord] {
	return newDocument(documentConfig[backupRecord]{of: of, name: backupDocument, what: "record of a backup"})
}

// Picture implements api.ClusterAdmin. A read that the shard's owner commits shows how far the shard is; this node's
// replica is pictured when it is that far. So the picture has everything that was answered before, whichever replica it
// is of.
func (a *admin) Picture(ctx context.Context, id shard.ID) (picture api.Picture, err error) {
	t := a.view.newestTable()
	if !a.view.hasTable() {
		return picture, errNoTable
	}
	if t.Group(id) == nil {
		return picture, shard.Invalidf("shard", "the cluster has no shard %s", id)
	}
	replica := a.replicas.of(id)
	if replica == nil {
		return picture, &shard.Error{Code: shard.Unavailable,
			Message: fmt.Sprintf("node %s has no replica of shard %s: ask another", a.node, id)}
	}
	at, err := a.positionOf(ctx, id)
	if err != nil {
		return picture, err
	}
	for {
		if stopped := replica.stopped.Load(); stopped != nil {
			return picture, stopped
		}
		look := func(s *shard.State) { picture.Slots = s.SlotRecords() }
		if snapshot, ok := replica.group.Picture(at.Epoch, at.Seq, look); ok {
			picture.WriterTo = snapshot
			return picture, nil
		}
		if !sleep.For(ctx, 10*time.Millisecond) {
			return picture, &shard.Error{Code: shard.Unavailable,
				Message: fmt.Sprintf("node %s's replica of shard %s is behind its owner's: ask another node",
					a.node, id)}
		}
	}
}

// positionOf returns the place of a read that the owner of a shard commits now.
func (a *admin) positionOf(ctx context.Context, id shard.ID) (shard.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	r := shard.Request{Op: shard.Fetch, Namespace: systemNamespace, Document: backupDocument}
	if id != shard.System {
		r = shard.Request{Op: shard.ReadAudit, Shard: id}
	}
	result := a.documents.router.Submit(ctx, id, []shard.Request{r})[0]
	if result.Err != nil {
		return shard.Position{}, result.Err
	}
	return result.Decision.Position, nil
}

// RecordBackup implements api.ClusterAdmin. An older backup does not replace a newer one. None was begun later than
// now: the caller's clock may be ahead, and until it is that late, nobody would be told that backups are missing.
func (a *admin) RecordBackup(ctx context.Context, begun time.Time, bytes uint64) error {
	now := a.now().UnixMicro()
	at := min(begun.UnixMicro(), now) //mutant:backup-of-the-future-recorded
	return a.backup.change(ctx, nil, func(before known[backupRecord]) (*backupRecord, error) {
		if before.value.Begun >= at && before.value.Begun <= now { //mutant:backup-of-the-future-stays
			return nil, nil
		}
		return &backupRecord{at, bytes}, nil
	})
}

// lastBackup returns when the newest backup was begun, as this node's replica of the system shard says; the zero time
// if there is no backup, or no replica. A status commits nothing.
func (a *admin) lastBackup() time.Time {
	replica := a.replicas.of(shard.System)
	if replica == nil {
		return time.Time{}
	}
	var d shard.Document
	var err error
	replica.group.View(func(s *shard.State) { d, err = shard.ReadDocument(s, backupDocument) })
	if err != nil || d.Version == 0 {
		return time.Time{}
	}
	b, err := a.backup.decode(d)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(b.Begun)
}
