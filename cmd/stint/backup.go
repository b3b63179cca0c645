package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/shard"
)

type backupCommand struct {
	File string        `arg:"" optional:"" help:"Where to write it; - is stdout."`
	Dir  string        `help:"Write it into this directory instead, named after the instant, and read it back." placeholder:"DIR"`
	Keep time.Duration `help:"With --dir: then delete this cluster's backups there that are older." placeholder:"14d"`
	remote
}

// Run writes a backup.
func (c *backupCommand) Run(s streams) error {
	switch {
	case (c.File == "") == (c.Dir == ""):
		return usagef("backup: give either a file or --dir")
	case c.Keep < 0 || c.Keep > 0 && c.Dir == "":
		return usagef("backup: --keep is a length of time, and needs --dir")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	begun := time.Now()
	status, err := c.status("backup")
	if err != nil {
		return err
	}
	if status.Partial {
		return errors.New("backup: the token must be granted the operations observe and backup, without bounds")
	}
	levels, err := c.levels("backup")
	if err != nil {
		return err
	}
	b := &backupRun{remote: c.remote, s: s, status: status, header: backup.Header{Cluster: status.ClusterId,
		Release: version(), Level: shard.Level(max(levels.Level, levels.RisingTo)), Begun: begun.UnixMicro(),
		Shards: uint32(len(dataShards(status)))}}
	bytes, err := c.save(ctx, b, begun)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	fmt.Fprintf(s.err, "stint: backup of cluster %s is complete: %d bytes, %v\n", status.ClusterId, bytes,
		time.Since(begun).Round(time.Millisecond))
	if _, err := ask(c.remote, "backup", "", c.cluster().RecordBackup,
		&stintv1.RecordBackupRequest{Begun: timestamppb.New(begun), Bytes: uint64(bytes)}); err != nil {
		fmt.Fprintf(s.err, "stint: the backup is complete, but stint status will not show it: %v\n", err)
	}
	if c.Dir == "" {
		return nil
	}
	dir := backupDir(c.Dir)
	if c.Keep > 0 {
		dir.prune(s, status.ClusterId, begun, b.at, c.Keep)
	}
	fmt.Fprintln(s.out, dir.file(begun))
	return nil
}

// save writes a backup to the destination of the command, and returns its size.
func (c *backupCommand) save(ctx context.Context, b *backupRun, begun time.Time) (bytes int64, err error) {
	write := func(w io.Writer) (err error) { bytes, err = b.write(ctx, w); return err }
	switch {
	case c.Dir != "":
		// a clock of this machine that is ahead makes no backup older
		if b.at, err = backupDir(c.Dir).add(begun, write); b.at.After(begun) { //mutant:wrong-clock-deletes-backups
			b.at = begun
		}
	case c.File == "-":
		out := bufio.NewWriterSize(raw(b.s.out), 64<<10)
		if err = write(out); err == nil {
			err = out.Flush()
		}
	default:
		err = writeAtomically(c.File, 0o600, write)
	}
	return bytes, err
}

// backupRun is a backup in progress.
type backupRun struct {
	remote
	s      streams
	status *stintv1.StatusResponse // from before the first picture: which nodes have replicas
	header backup.Header
	slots  [][]byte  // shard.State.SlotRecords of the pictures so far, in the order of the sections
	at     time.Time // from when the age of other backups in the directory counts; save sets it, with --dir alone
}

func (b *backupRun) write(ctx context.Context, out io.Writer) (int64, error) {
	w, err := backup.NewWriter(out, b.header)
	if err != nil {
		return 0, err
	}
	for id, more := w.Next(); more; id, more = w.Next() {
		before := w.Written()
		if err := b.shard(ctx, w, id.String()); err != nil {
			return 0, fmt.Errorf("shard %s: %w", id, err)
		}
		fmt.Fprintf(b.s.err, "stint: shard %s: %d bytes\n", id, w.Written()-before)
	}
	missing, err := shard.MissingSlots(b.slots[:b.header.Shards])
	if missing > 0 { //mutant:backup-lacks-a-moved-slot
		err = fmt.Errorf("slots moved to other shards while it was made, and %d of them are in no picture: make it "+
			"again (stint shards says how many are still to move)", missing)
	}
	if err != nil {
		return 0, err
	}
	err = w.Finish()
	return w.Written(), err
}

// shard writes one shard, from the first node that sends it. Once a node has sent a first chunk, an error ends the
// backup: the section is begun, and another node's picture does not continue it.
func (b *backupRun) shard(ctx context.Context, w *backup.Writer, name string) error {
	var errs []error
	for _, addr := range b.sources(ctx, name) {
		picture, err := openPicture(ctx, b.client(), addr, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			continue
		}
		b.slots = append(b.slots, picture.stream.Msg().Slots)
		var system bytes.Buffer
		err = w.Section(func(out io.Writer) error {
			if name == systemShard {
				out = io.MultiWriter(out, &system)
			}
			return picture.copyTo(out)
		})
		picture.close()
		if err == nil && name == systemShard {
			err = b.hasAllShards(&system)
		}
		return err
	}
	return errors.Join(errs...)
}

// hasAllShards refuses a backup in which the system shard, the last to be pictured, lists shards that were not.
func (b *backupRun) hasAllShards(system io.Reader) error {
	state, err := shard.Restore(shard.System, system)
	if err != nil {
		return err
	}
	document, err := shard.ReadDocument(state, placement.TableDocument)
	if err != nil {
		return err
	}
	table, err := placement.DecodeTable(document.Body)
	if err == nil && table.Shards != b.header.Shards { //mutant:backup-lacks-a-founded-shard
		err = fmt.Errorf("the cluster had %s when the backup was begun, and has %d now: make it again",
			plural(b.header.Shards, "shard"), table.Shards)
	}
	return err
}

// sources lists the addresses to ask for a shard: that of the command line first, which may be the only reachable one,
// then those of the nodes with a replica.
func (b *backupRun) sources(ctx context.Context, name string) []string {
	addrs := []string{b.reach(ctx)}
	has := map[string]bool{}
	for _, d := range b.status.Shards {
		for _, r := range d.Replicas {
			has[r.Node] = has[r.Node] || d.Name == name
		}
	}
	for _, node := range b.answering(b.status) {
		if has[node.id] {
			addrs = append(addrs, node.url)
		}
	}
	return addrs
}
