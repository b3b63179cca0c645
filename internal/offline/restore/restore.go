package restore

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// Config says how a backup is restored.
type Config struct {
	DataDir string       // empty, or to be created
	NodeID  string       // of the node that will use it; "": a new one
	Shards  uint32       // data shards of the new cluster; 0: as many as the backup has
	Keep    []shard.Kept // what continues with the backup's counts
	Actor   string       // who restores, and why, for the audit log
	Note    string
	Version string    // of this build
	Now     time.Time // by this machine's clock
	Logger  *slog.Logger
	FS      raftfsm.FS // nil: the disk

	Margin time.Duration // replaces the constant in tests, where all nodes have one clock; 0 keeps it
}

// Restore is a backup that was decoded and can be written. Its Write is all that touches a disk.
type Restore struct {
	Backup   backup.Header
	At       limit.Time // shard time at which the cluster continues
	Cluster  string     // id of the new cluster
	Node     string     // id of its only node
	Policies *policy.Set
	Data     []*shard.State // the shards as the cluster continues with them, in order
	System   *shard.State
	Counts   shard.Restored // of what the backup has
	Ends     []Limit        // in the order of policies and their limits
	// NewHashes: the policies hash keys, and the secret for that is not in the backup. What it counted in these
	// namespaces can no longer be found, so that everything counts as full, whatever the backup knows.
	NewHashes bool

	config      Config
	level       shard.Level       // the backup's, at which the new cluster begins
	table       *placement.Table  // of the new cluster
	documents   map[string][]byte // by name: those that replace what the backup's system shard has
	revision    uint64            // the newest revision of the policies that any shard has adopted
	index, term uint64            // where the logs of all shards begin
}

const (
	// epochsAhead is how far the logs of restored shards begin after the longest in the backup, so that every new epoch
	// is greater than any that may be lost, of whichever shard: a place in the log of a shard never comes twice,
	// although the cluster may have had a shard of that number before.
	epochsAhead = 1 << 40
	// Margin is how far shard time goes on after the newest instant that anybody may have seen: clocks differ.
	Margin = 10 * time.Second
)

// Plan decodes a backup completely and says what its restore would make of it.
func Plan(b *backup.Backup, config Config) (*Restore, error) {
	if config.NodeID != "" && !placement.ValidID(config.NodeID) {
		return nil, fmt.Errorf("node-id: %q is not 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore", config.NodeID)
	}
	r := &Restore{Backup: b.Header, Cluster: placement.RandomID(), Node: cmp.Or(config.NodeID, placement.RandomID()),
		config: config, level: b.Level}
	r.At = limit.Time(config.Now.UnixMicro())
	states := append(slices.Clone(b.Data), b.System)
	for _, state := range states {
		r.At = max(r.At, state.Time())
	}
	r.At += limit.Time(cmp.Or(config.Margin, Margin).Microseconds())
	if err := r.readDocuments(b); err != nil {
		return nil, err
	}
	if err := r.checkKeep(); err != nil {
		return nil, err
	}
	for _, state := range states {
		//mutant:restored-log-begins-too-low
		r.index, r.term = max(r.index, state.Epoch()+state.Seq()+epochsAhead), max(r.term, state.Term()+1)
	}
	if err := r.continueShards(b); err != nil {
		return nil, err
	}
	if !r.DataExact() {
		r.Ends = EndsOf(r.Policies, r.At, r.keeps)
	}
	return r, nil
}

// DataExact reports whether the new cluster knows all counts.
func (r *Restore) DataExact() bool { return r.Backup.DataExact() && !r.NewHashes }

// continueShards makes the states of the new cluster. readDocuments must have run, and index must be set.
func (r *Restore) continueShards(b *backup.Backup) (err error) {
	how := shard.Restoration{Slots: r.table.Slots, At: r.At, Now: limit.Time(r.config.Now.UnixMicro()), Before: r.index,
		Policies: r.Policies, Keep: r.config.Keep, Actor: r.config.Actor, Note: r.config.Note,
		From: recoveredFrom(r.Backup.Recovery),
		Lost: r.Backup.Recovery != nil && !r.Backup.DataExact(), //mutant:lost-shard-stops-a-restore
		//mutant:exact-filled //mutant:inexact-not-filled
		Exact: r.DataExact()}
	if r.Data, r.Counts, err = shard.Continue(b.Data, how); err != nil {
		return err
	}
	r.System, err = shard.ContinueSystem(b.System, r.At, r.documents, r.revision)
	return err
}

// recoveredFrom says for the audit log what a recovery had and what it lost; "": the backup is of a running cluster.
func recoveredFrom(r *backup.Recovery) string {
	if r == nil {
		return ""
	}
	lost := []string{}
	for i, s := range r.Shards {
		if !s.Exact {
			name := shard.System
			if i < len(r.Shards)-1 {
				name = shard.ID(i)
			}
			lost = append(lost, name.String())
		}
	}
	text := fmt.Sprintf("recovered by %s from %s; ", r.Actor, strings.Join(r.Inputs, ", "))
	if len(lost) == 0 {
		return text + "nothing is lost"
	}
	return text + "the end is lost of the shards " + strings.Join(lost, ", ")
}

// Write makes the data directory. If it fails or is killed, the directory does not start, and Write can be called
// again.
func (r *Restore) Write() error {
	kept := map[string]any{}
	for _, name := range []string{placement.TableDocument, placement.LevelsDocument, placement.SecretsDocument} {
		document, err := shard.ReadDocument(r.System, name)
		if err != nil {
			return err
		}
		kept[name] = document
	}
	config := raftfsm.StoresConfig{Fresh: raftfsm.Identity{Cluster: r.Cluster, Node: r.Node}, FreshRecords: kept,
		FreshLevel: r.level, Release: r.config.Version, Logger: r.config.Logger, FS: r.config.FS, Fatal: func(error) {}}
	return raftfsm.RestoreStores(r.config.DataDir, config, func(stores *raftfsm.Stores) error {
		seed := func(id shard.ID, state *shard.State) error {
			return raftfsm.SeedGroup(stores, raftfsm.Replica{Shard: id, Number: 1}, r.index, r.term, state)
		}
		for i, state := range r.Data {
			if err := seed(shard.ID(i), state); err != nil {
				return err
			}
		}
		return seed(shard.System, r.System)
	})
}
