package api

import (
	"bufio"
	"context"
	"slices"
	"strconv"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
)

type backupCall = call[stintv1.BackupRequest, *stintv1.BackupRequest]

// pictureChunk is the size of a BackupChunk, in bytes.
const pictureChunk = 256 << 10

// backup sends the slots of a shard and then its snapshot, in chunks. Each chunk has its own deadline to be read, so a
// backup may take hours: the caller's token is asked for before each.
func (s clusterService) backup(ctx context.Context, c *backupCall, send func(*stintv1.BackupChunk) error) error {
	if err := c.problem(); err != nil {
		return err
	}
	if s.cluster == nil {
		return &shard.Error{Code: shard.NotBuilt, Message: "an edge keeps no shard: ask a node"}
	}
	id, err := shardNamed(c.message.Shard)
	if err != nil {
		return err
	}
	picture, err := s.cluster.Picture(ctx, id)
	if err != nil {
		return err
	}
	x := exchangeOf(ctx)
	sendNext := func(m *stintv1.BackupChunk) error {
		//mutant:backup-outlives-its-token
		if refusal := s.gate.stillAdmits(x, stintv1connect.ClusterServiceBackupProcedure); refusal != nil {
			return refusal
		}
		return send(m)
	}
	if err := sendNext(&stintv1.BackupChunk{Slots: picture.Slots}); err != nil {
		return err
	}
	chunks := bufio.NewWriterSize(chunkWriter(sendNext), pictureChunk)
	if _, err := picture.WriteTo(chunks); err != nil {
		return err
	}
	return chunks.Flush()
}

// chunkWriter sends written bytes in chunks.
type chunkWriter func(*stintv1.BackupChunk) error

// Write implements io.Writer.
func (send chunkWriter) Write(b []byte) (written int, err error) {
	for some := range slices.Chunk(b, pictureChunk) {
		if err := send(&stintv1.BackupChunk{Data: some}); err != nil {
			return written, err
		}
		written += len(some)
	}
	return written, nil
}

// shardNamed returns the shard with a name in the form of Status.
func shardNamed(name string) (shard.ID, error) {
	if name == shard.System.String() {
		return shard.System, nil
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil || shard.ID(n) == shard.System {
		return 0, shard.Invalidf("shard", "%q is neither a number nor %q", shortened(name, 40), shard.System.String())
	}
	return shard.ID(n), nil
}

func (s clusterService) recordBackup(
	ctx context.Context, m *stintv1.RecordBackupRequest,
) (*stintv1.RecordBackupResponse, error) {
	if m.Begun == nil || m.Begun.CheckValid() != nil {
		return nil, shard.Invalidf("begun", "is missing, or no time")
	}
	return &stintv1.RecordBackupResponse{}, s.cluster.RecordBackup(ctx, m.Begun.AsTime(), m.Bytes)
}
