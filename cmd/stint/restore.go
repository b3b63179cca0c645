package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

type restoreCommand struct {
	File    string   `arg:"" help:"A file that stint backup wrote." type:"existingfile"`
	DataDir string   `help:"Data directory of the new cluster's first node. It must be empty." required:"" placeholder:"DIR"`
	NodeID  string   `help:"Id of that node. Default: a new one." placeholder:"ID"`
	Shards  uint32   `help:"Data shards of the new cluster. Default: as many as the backup has." placeholder:"N"`
	DryRun  bool     `help:"Verify the file and say what would be, without writing anything."`
	Keep    []string `help:"Let a limit continue with the backup's counts, or all limits of a policy and its lockout. Repeatable." placeholder:"POLICY/LIMIT"`
	Note    string   `help:"Why, for stint audit."`
	Yes     bool     `help:"Do not ask."`
}

// Run restores a backup.
func (c *restoreCommand) Run(s streams) error {
	r, err := c.plan(s)
	if err != nil {
		return fmt.Errorf("restore: %s: %w", c.File, err)
	}
	printRestore(s, r)
	if err := s.failed(); err != nil || c.DryRun {
		return err
	}
	if !c.Yes {
		if err := s.consent("\nRestore to "+c.DataDir+"?", "restore: nothing was written"); err != nil {
			return err
		}
	}
	syscall.Umask(0o077) // as serve does: the data is for its owner only
	if err := r.Write(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	fmt.Fprintf(s.out,
		"\ncluster %s is restored to %s; its node is %s\nstart it with stint serve --data-dir %s --node-id %s\n",
		r.Cluster, c.DataDir, r.Node, c.DataDir, r.Node)
	return nil
}

func (c *restoreCommand) plan(s streams) (*restore.Restore, error) {
	b, err := backup.OnFile(c.File, backup.Read)
	if err != nil {
		return nil, err
	}
	config := restore.Config{DataDir: c.DataDir, NodeID: c.NodeID, Shards: c.Shards, Actor: localUser(), Note: c.Note,
		Version: version(), Now: time.Now(), Logger: slog.New(slog.NewTextHandler(s.err,
			&slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, name := range c.Keep {
		p, l, _ := strings.Cut(name, "/")
		config.Keep = append(config.Keep, shard.Kept{Policy: p, Limit: l})
	}
	return restore.Plan(b, config)
}

// localUser names the user for the audit log.
func localUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "local"
}

// printRestore describes the result of a restore.
func printRestore(s streams, r *restore.Restore) {
	sum := &r.Counts
	begun := time.UnixMicro(r.Backup.Begun).UTC()
	fmt.Fprintf(s.out, "backup of cluster %s, begun %s (%v ago), by release %s\n", escaped(r.Backup.Cluster, ""),
		// No line of it may come from the file.
		begun.Format(time.RFC3339), time.Since(begun).Round(time.Second), escaped(r.Backup.Release, ""))
	fmt.Fprintf(s.out, "%s, %s with counts (of %d something is no longer known), %s\n",
		plural(r.Backup.Shards, "shard"), plural(sum.Keys, "key"), sum.Full, plural(sum.Holds, "open hold"))
	if n := uint32(len(r.Data)); n != r.Backup.Shards {
		fmt.Fprintf(s.out, "the new cluster has %s\n", plural(n, "shard"))
	}
	if sum.Operations > 0 {
		fmt.Fprintf(s.out, "%s on several shards will end as far as they are known\n",
			plural(sum.Operations, "operation"))
	}
	if sum.Unreadable > 0 {
		fmt.Fprintf(s.out, "%s cannot be read by this release: requests for their keys will say so\n",
			plural(sum.Unreadable, "record"))
	}
	if r.NewHashes {
		fmt.Fprintln(s.out,
			"the secret that keys are hashed with is lost: all keys of the namespaces that hash them are new, "+
				"and count as full")
	}
	if recovered := r.Backup.Recovery; recovered != nil {
		fmt.Fprintf(s.out, "recovered by %s from %s\n", escaped(recovered.Actor, ""),
			escaped(strings.Join(recovered.Inputs, ", "), ""))
	}
	if r.DataExact() {
		fmt.Fprintf(s.out,
			"\nno count is lost: all limits continue where the cluster stopped, "+
				"as long as no old node has run since %s\n",
			begun.Format(time.RFC3339))
		if !r.Backup.SystemExact() {
			fmt.Fprintln(s.out, "changes of tokens and policies may be lost: "+
				"tokens keep only what check, settle and read need")
		}
		return
	}
	fmt.Fprintf(s.out,
		"\nlost is what happened since %s: usage (which cannot be billed), holds, blocks, overrides, "+
			"changes of policies\n\n",
		begun.Format(time.RFC3339))
	printEnds(s, r.Ends, r.At)
}

// printEnds prints until when each limit denies after a restore.
func printEnds(s streams, ends []restore.Limit, at limit.Time) {
	printTable(s, "POLICY\tLIMIT\tCONTINUES", ends, func(end restore.Limit) []any {
		return []any{end.Policy, cmp.Or(end.Limit, "(lockout)"), continues(&end, at)}
	})
}

// continues describes how a limit continues.
func continues(end *restore.Limit, at limit.Time) string {
	until := time.UnixMicro(int64(end.FullUntil)).UTC().Format(time.RFC3339)
	switch {
	case end.Never:
		return "with the backup's counts: it never resets, so what was used since is admitted again"
	case end.Keeps && end.Limit == "":
		return "with the backup's failures and blocks"
	case end.Keeps:
		return "with the backup's counts: what was used since is admitted again"
	case end.FullUntil <= at:
		return "at once: it admits nothing in any case"
	case end.Limit == "":
		return "with the backup's failures and blocks; keys without any are blocked until " + until
	}
	return fmt.Sprintf("full for every key until %s, or a part of it (%v)", until,
		(time.Duration(end.FullUntil-at) * time.Microsecond).Round(time.Second))
}
