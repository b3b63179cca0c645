package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-io/stint/internal/offline/recovery"
)

type recoverCommand struct {
	From       []string `arg:"" help:"Data directories of stopped nodes, and parts that --part wrote on other machines." name:"dir" type:"path"`
	File       string   `short:"o" name:"file" help:"Where to write the backup, or the part." type:"path" placeholder:"FILE"`
	DryRun     bool     `help:"Read, say what is left and what would be lost, and write nothing."`
	Part       bool     `help:"Write what is left of one node, to be recovered together with others on another machine."`
	AcceptLoss bool     `help:"Write a backup also if something is lost. What is not known counts as full."`
	Backup     string   `help:"An older backup of this cluster, for shards of which no replica is left." type:"existingfile" placeholder:"FILE"`
	JSON       bool     `name:"json" help:"Print what is left as JSON, for programs."`
}

// Run recovers.
func (c *recoverCommand) Run(s streams) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := recovery.Open(ctx, recovery.Config{Inputs: c.From, Backup: c.Backup, AcceptLoss: c.AcceptLoss,
		Actor: localUser(), Version: version(), Now: time.Now()})
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := c.print(s, r); err != nil {
		return err
	}
	write := r.Write
	if c.Part {
		write = r.WritePart
	} else if err := r.Refusal(); err != nil {
		return fmt.Errorf("recover: nothing was written: %w", err)
	}
	if c.DryRun {
		return nil
	}
	if err := writeAtomically(c.File, 0o600, func(w io.Writer) error { return write(w) }); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if c.Part {
		fmt.Fprintf(s.err, "stint: wrote %s: what is left of node %s\n", c.File, r.Nodes[0].Node)
		return nil
	}
	fmt.Fprintf(s.err, "stint: wrote %[1]s: keep all old nodes stopped from now on, "+
		"and go on with stint restore %[1]s --data-dir DIR\n", c.File)
	return nil
}

func (c *recoverCommand) check() error {
	switch {
	case c.File == "" && !c.DryRun:
		return usagef("recover: -o FILE is missing: where to write, or --dry-run")
	case c.Part && (len(c.From) != 1 || c.AcceptLoss || c.Backup != ""):
		return usagef("recover: --part takes one data directory, and neither --accept-loss nor --backup")
	}
	for _, dir := range c.From {
		if inside, err := filepath.Rel(dir, c.File); err == nil && c.File != "" && filepath.IsLocal(inside) {
			return usagef("recover: %s is in %s, which is only read: write somewhere else", c.File, dir)
		}
	}
	return nil
}

func (c *recoverCommand) print(s streams, r *recovery.Recovery) error {
	if c.JSON {
		out := json.NewEncoder(raw(s.out))
		out.SetIndent("", "  ")
		return out.Encode(recoveryForPrograms(r))
	}
	printRecovery(s, r, !c.Part)
	return s.failed()
}

// printRecovery describes the remains of a cluster. A part is not meant to be complete and gets no verdict.
func printRecovery(s streams, r *recovery.Recovery, verdict bool) {
	fmt.Fprintf(s.out, "cluster %s\n", r.Cluster)
	for _, n := range r.Nodes {
		fmt.Fprintf(s.out, "node %s: %s, read %s\n", n.Node, n.From, n.Read.Format(time.RFC3339))
	}
	fmt.Fprintln(s.out)
	replicas := newTable(s)
	fmt.Fprintln(replicas, "SHARD\tREPLICA\tTERM\tINDEX\tEPOCH\tSEQ\tTIME\tSUM\tVOTERS\tMARKS")
	for _, d := range r.Shards {
		for i := range d.Replicas {
			one := &d.Replicas[i]
			fmt.Fprintf(replicas, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%016x\t%d at %d\t%s\n",
				d.Name, one.Name, one.Term, one.Index, one.Epoch, one.Seq, timeText(int64(one.Time)), one.Sum,
				len(one.Newest.Names), one.Newest.Index, marksText(one, one.Name == d.Chosen))
		}
	}
	replicas.Flush()
	if !verdict {
		return
	}
	fmt.Fprintln(s.out)
	printTable(s, "SHARD\tTAKEN\tVERDICT", r.Shards, func(d recovery.Shard) []any {
		text := "exact"
		if !d.Exact {
			text = "not exact: " + d.Lost
		}
		return []any{d.Name, dash(d.Chosen), text}
	})
	printOutlook(s, r)
}

// printOutlook describes the result of a restore.
func printOutlook(s streams, r *recovery.Recovery) {
	switch {
	case r.Exact:
		fmt.Fprintln(s.out,
			"\nNothing that was answered is lost. A restore continues where the cluster stopped. "+
				"Unacknowledged entries at the end\nof a log are taken: "+
				"a request that failed with an unknown outcome may have been counted.")
	case !r.Fills:
		fmt.Fprintln(s.out,
			"\nNo count is lost. The system shard is not exact: changes of tokens and policies may be lost, "+
				"so a restore leaves tokens\nonly what check, settle and read need.")
	default:
		fmt.Fprintln(s.out, "\nSomething may be lost, so a restore counts as full what is not known:")
		fmt.Fprintln(s.out)
		printEnds(s, r.Ends, r.At)
	}
}

// marksText says why a replica does not count, beginning with what makes it useless, or that it was taken.
func marksText(r *recovery.Replica, chosen bool) string {
	switch {
	case r.Unreadable != "":
		return "unreadable: " + r.Unreadable
	case r.Convicted != "":
		return "convicted: " + r.Convicted
	case r.Forgetful != "":
		return "suspect: " + r.Forgetful
	case chosen:
		return "taken"
	}
	return "-"
}

// timeText formats an instant in Unix microseconds; 0 means none.
func timeText(micros int64) string {
	if micros == 0 {
		return "-"
	}
	return instantOf(micros).Format("2006-01-02T15:04:05.000Z")
}

// recoveredJSON is what --json prints.
type recoveredJSON struct {
	Cluster string               `json:"cluster"`
	Nodes   []recovery.Node      `json:"nodes"`
	Shards  []recoveredShardJSON `json:"shards"`
	Exact   bool                 `json:"exact"`
	Fills   bool                 `json:"fills"` // a restore counts unknown usage as full
	Limits  []recoveredLimitJSON `json:"limits,omitempty"`
}

// recoveredShardJSON is a recovery.Shard.
type recoveredShardJSON struct {
	Name     string                 `json:"name"`
	Taken    string                 `json:"taken,omitempty"` // the replica that goes into the backup
	Exact    bool                   `json:"exact"`
	Lost     string                 `json:"lost,omitempty"`
	Replicas []recoveredReplicaJSON `json:"replicas"`
}

// recoveredReplicaJSON is a recovery.Replica. What is derived from its records, Epoch to Sum, is 0 if it is unreadable.
type recoveredReplicaJSON struct {
	Name           string    `json:"name"`
	Term           uint64    `json:"term"`
	Index          uint64    `json:"index"`
	Epoch          uint64    `json:"epoch"`
	Seq            uint64    `json:"seq"`
	Time           time.Time `json:"time,omitzero"`
	Records        int       `json:"records"`
	Sum            string    `json:"sum"` // 16 hexadecimal digits: readers of JSON may round a number of 64 bits
	Voters         []string  `json:"voters"`
	PreviousVoters []string  `json:"previousVoters,omitempty"`
	Convicted      string    `json:"convicted,omitempty"`
	Suspect        string    `json:"suspect,omitempty"` // why it may have forgotten what it had acknowledged
	Unreadable     string    `json:"unreadable,omitempty"`
}

type recoveredLimitJSON struct {
	Policy    string    `json:"policy"`
	Limit     string    `json:"limit,omitempty"`    // empty for the lockout
	FullUntil time.Time `json:"fullUntil,omitzero"` // absent if the limit continues with the backup's counts
}

func recoveryForPrograms(r *recovery.Recovery) (all recoveredJSON) {
	all = recoveredJSON{Cluster: r.Cluster, Nodes: r.Nodes, Exact: r.Exact, Fills: r.Fills}
	for _, d := range r.Shards {
		one := recoveredShardJSON{Name: d.Name, Taken: d.Chosen, Exact: d.Exact, Lost: d.Lost,
			Replicas: []recoveredReplicaJSON{}}
		for i := range d.Replicas {
			c := &d.Replicas[i]
			one.Replicas = append(one.Replicas, recoveredReplicaJSON{
				Name:           c.Name,
				Term:           c.Term,
				Index:          c.Index,
				Epoch:          c.Epoch,
				Seq:            c.Seq,
				Time:           instantOf(int64(c.Time)),
				Records:        c.Records,
				Sum:            fmt.Sprintf("%016x", c.Sum),
				Voters:         c.Newest.Names,
				PreviousVoters: c.Previous.Names,
				Convicted:      c.Convicted,
				Suspect:        c.Forgetful,
				Unreadable:     c.Unreadable,
			})
		}
		all.Shards = append(all.Shards, one)
	}
	for _, end := range r.Ends {
		all.Limits = append(all.Limits, recoveredLimitJSON{end.Policy, end.Limit, instantOf(int64(end.FullUntil))})
	}
	return all
}

// instantOf is an instant in Unix microseconds; the zero time for 0.
func instantOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
