package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// Config says from what a backup is made after the disks of a majority are lost.
type Config struct {
	Inputs     []string // data directories of nodes that do not run, and files that Recovery.WritePart wrote
	Backup     string   // an older backup of the same cluster, for shards of which no replica is left; "": none
	AcceptLoss bool     // write a backup also if something is lost
	Actor      string   // who recovers
	Version    string   // of this build
	Now        time.Time

	// Answers reports whether a node runs at an address. It is called concurrently. nil means: it does if it accepts a
	// TCP connection.
	Answers func(ctx context.Context, address string) bool
}

// Recovery is what is left of a cluster, read and judged. It holds the data directories until Close, and changes
// nothing in them. Its methods must not be called concurrently.
type Recovery struct {
	Cluster string
	Nodes   []Node
	Shards  []Shard         // data shards in order, then the system shard
	Exact   bool            // nothing is lost: all shards are exact
	Fills   bool            // something of the data shards is lost, so a restore counts as full what is not known
	At      limit.Time      // shard time at which a restore would continue now
	Ends    []restore.Limit // until when it would deny; empty if it does not fill

	config   Config
	level    shard.Level    // the newest of all inputs
	remnants []*remnant     // in the order of Config.Inputs
	backup   *backup.Backup // nil: none was given
}

// Node is a node of which something is left.
type Node struct {
	Node string    `json:"node"`
	From string    `json:"from"` // the directory or part, as it was given
	Read time.Time `json:"read"` // when its data directory was read
}

// Open reads what is left and judges it. It refuses directories that are in use, of different clusters, of the same
// node twice, and all of them as long as a node that their tables list answers. If there is an error, nothing is held.
func Open(ctx context.Context, config Config) (r *Recovery, err error) {
	r = &Recovery{config: config}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, from := range config.Inputs {
		one, err := openRemnant(from, config.Now)
		if err != nil {
			return r, err
		}
		r.remnants = append(r.remnants, one)
	}
	if err := r.belongTogether(); err != nil {
		return r, err
	}
	table, err := r.newestTable(ctx)
	if err != nil {
		return r, err
	}
	if err := r.readBackup(table); err != nil {
		return r, err
	}
	for id := range shard.ID(table.Shards) {
		r.judge(id, table)
	}
	r.judge(shard.System, table)
	r.Fills = slices.ContainsFunc(r.Shards[:table.Shards], func(s Shard) bool { return !s.Exact })
	r.Exact = !r.Fills && r.Shards[table.Shards].Exact
	return r, r.foresee()
}

// belongTogether refuses what is not of one cluster, or of one node twice.
func (r *Recovery) belongTogether() error {
	if len(r.remnants) == 0 {
		return errors.New("no data directory was given")
	}
	first := r.remnants[0]
	from := map[string]string{}
	for _, one := range r.remnants {
		about := &one.about
		if about.Cluster != first.about.Cluster { //mutant:clusters-mixed
			return fmt.Errorf("%s is of cluster %s, and %s of cluster %s: give those of one cluster only", first.from,
				first.about.Cluster, one.from, about.Cluster)
		}
		if other, twice := from[about.Node]; twice { //mutant:node-counts-twice
			return fmt.Errorf("%s and %s are both of node %s: a node counts once, so leave out the older one",
				other, one.from, about.Node)
		}
		from[about.Node] = one.from
		r.level = max(r.level, about.Level)
		r.Nodes = append(r.Nodes, Node{about.Node, one.from, time.UnixMicro(about.Read).UTC()})
	}
	r.Cluster = first.about.Cluster
	return r.sameStop()
}

// sameStop refuses a part that was made before the cluster counted what another input has: the node may have run again
// since, and then its disk knows more than the part. A directory is read now, so of one it is the clock that is behind.
func (r *Recovery) sameStop() error {
	for _, one := range r.remnants {
		for _, other := range r.remnants {
			for i := range other.about.Replicas {
				last := other.about.Replicas[i].Time
				//mutant:parts-of-a-node-that-ran
				if last > limit.Time(one.about.Read)+limit.Time(restore.Margin.Microseconds()) {
					made, again := one.from+" was made", "make it again"
					if one.dir != nil { //mutant:slow-clock-made-a-part
						made, again = "by this machine's clock "+one.from+" was read", "set the clock"
					}
					return fmt.Errorf("%s at %s, and %s has counted until %s: %s", made,
						time.UnixMicro(one.about.Read).UTC().Format(time.RFC3339), other.from,
						time.UnixMicro(int64(last)).UTC().Format(time.RFC3339), again)
				}
			}
		}
	}
	return nil
}

// newestTable returns the newest table that any node knows, once no node that any of their tables lists answers.
func (r *Recovery) newestTable(ctx context.Context) (newest *placement.Table, err error) {
	version, nodes := uint64(0), map[string]string{} // by address
	for _, one := range r.remnants {
		if one.about.TableVersion == 0 {
			continue
		}
		table, err := placement.DecodeTable(one.about.Table)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.from, err)
		}
		if one.about.TableVersion > version {
			newest, version = table, one.about.TableVersion
		}
		for _, n := range table.Nodes {
			if n.State != placement.NodeRemoved {
				nodes[n.APIAddr], nodes[n.PeerAddr] = n.ID, n.ID
			}
		}
	}
	if newest == nil {
		return nil, errors.New("no node has a table of the cluster: nobody can tell what is missing")
	}
	delete(nodes, "")
	return newest, r.mustBeSilent(ctx, nodes)
}

// readBackup reads the older backup, if there is one.
func (r *Recovery) readBackup(table *placement.Table) (err error) {
	if r.config.Backup == "" {
		return nil
	}
	if r.backup, err = backup.OnFile(r.config.Backup, backup.Read); err != nil {
		return fmt.Errorf("%s: %w", r.config.Backup, err)
	}
	if r.backup.Cluster != r.Cluster || r.backup.Shards != table.Shards {
		return fmt.Errorf("%s has %d shards of cluster %s, and the disks %d of %s", r.config.Backup, r.backup.Shards,
			r.backup.Cluster, table.Shards, r.Cluster)
	}
	r.level = max(r.level, r.backup.Level)
	return nil
}

// judge gathers what is left of a shard, and chooses.
func (r *Recovery) judge(id shard.ID, table *placement.Table) {
	s := Shard{ID: id, Name: id.String()}
	for i, one := range r.remnants {
		for j := range one.about.Replicas {
			if found := one.about.Replicas[j]; found.Shard == id {
				found.remnant, found.place = i, j
				s.Replicas = append(s.Replicas, found)
			}
		}
	}
	s.choose(table)
	if s.Chosen == "" && r.backup != nil {
		s.Lost += ": what " + r.backupName() + " has is taken"
	}
	r.Shards = append(r.Shards, s)
}

func (r *Recovery) backupName() string {
	return "the backup of " + time.UnixMicro(r.backup.Begun).UTC().Format(time.RFC3339)
}

// Refusal says why no backup is to be written; nil: it may be.
func (r *Recovery) Refusal() error {
	if system := r.Shards[len(r.Shards)-1]; system.Chosen == "" && r.backup == nil { //mutant:recovers-without-policies
		return errors.New("no replica of the system shard is left, and with it policies, tokens and secrets are " +
			"gone: give an older backup of this cluster with --backup, which has them, or restore that backup alone")
	}
	if !r.Exact && !r.config.AcceptLoss { //mutant:loss-needs-no-consent
		var names []string
		for _, s := range r.Shards {
			if !s.Exact {
				names = append(names, s.Name)
			}
		}
		return fmt.Errorf("something may be lost of the shards %s: find more disks, "+
			"or accept the loss with --accept-loss", strings.Join(names, ", "))
	}
	return nil
}

// Write writes the backup.
func (r *Recovery) Write(out io.Writer) error {
	if err := r.Refusal(); err != nil {
		return err
	}
	w, err := backup.NewWriter(out, r.header())
	if err != nil {
		return err
	}
	for i := range r.Shards {
		state, err := r.state(&r.Shards[i])
		if err == nil {
			err = w.State(state)
		}
		if err != nil {
			return fmt.Errorf("shard %s: %w", r.Shards[i].Name, err)
		}
	}
	return w.Finish()
}

// header describes the backup. It counts as begun when the shard ended of which the least is known.
func (r *Recovery) header() backup.Header {
	h := backup.Header{Cluster: r.Cluster, Release: r.config.Version, Level: r.level, Shards: uint32(len(r.Shards) - 1),
		Begun: r.config.Now.UnixMicro(), Recovery: &backup.Recovery{Actor: r.config.Actor}}
	for _, n := range r.Nodes {
		h.Recovery.Inputs = append(h.Recovery.Inputs, "node "+n.Node)
	}
	if r.backup != nil {
		h.Recovery.Inputs = append(h.Recovery.Inputs, r.backupName())
		h.Begun = min(h.Begun, r.backup.Begun)
	}
	for i := range r.Shards {
		s := &r.Shards[i]
		h.Recovery.Shards = append(h.Recovery.Shards,
			backup.RecoveredFrom{From: s.Chosen, Exact: s.Exact, Lost: s.Lost})
		if chosen := s.chosen(); chosen != nil && chosen.Time > 0 {
			h.Begun = min(h.Begun, int64(chosen.Time))
		}
	}
	return h
}

// state reads a shard for the backup.
func (r *Recovery) state(s *Shard) (*shard.State, error) {
	if chosen := s.chosen(); chosen != nil {
		state, err := r.remnants[chosen.remnant].state(chosen.place)
		if err == nil && state.Sum() != chosen.Sum {
			err = fmt.Errorf("%s: read twice, it has the sums %016x and %016x: "+
				"this machine's memory or the disk may be faulty", s.Chosen, chosen.Sum, state.Sum())
		}
		return state, err
	}
	switch {
	case r.backup == nil:
		return shard.NewState(s.ID), nil // a restore counts it as full
	case s.ID == shard.System:
		return r.backup.System, nil
	}
	return r.backup.Data[s.ID], nil
}

// foresee says what a restore of the backup would deny.
func (r *Recovery) foresee() error {
	r.At = limit.Time(r.config.Now.UnixMicro())
	var newest *Replica
	for i := range r.Shards {
		chosen := r.Shards[i].chosen()
		if chosen == nil {
			continue
		}
		r.At = max(r.At, chosen.Time)
		if newest == nil || chosen.Adopted > newest.Adopted {
			newest = chosen
		}
	}
	r.At += limit.Time(restore.Margin.Microseconds())
	system := &r.Shards[len(r.Shards)-1]
	if !r.Fills || newest == nil || system.Chosen == "" && r.backup == nil {
		return nil
	}
	policies, err := r.policies(system, newest)
	if err != nil {
		return err
	}
	r.Ends = restore.EndsOf(policies, r.At, func(string, string) bool { return false })
	return nil
}

func (r *Recovery) policies(system *Shard, newest *Replica) (*policy.Set, error) {
	state, err := r.state(system)
	if err != nil {
		return nil, err
	}
	var data []*shard.State
	if newest.Adopted > 0 {
		adopted, err := r.remnants[newest.remnant].state(newest.place)
		if err != nil {
			return nil, err
		}
		data = append(data, adopted)
	}
	policies, _, _, err := restore.NewestPolicies(state, data)
	return policies, err
}

// WritePart writes what is left of the only node that was given, for a recovery on another machine.
func (r *Recovery) WritePart(out io.Writer) error {
	if len(r.remnants) != 1 || r.remnants[0].dir == nil {
		return errors.New("a part is made of one data directory")
	}
	return r.remnants[0].writePart(out, cmp.Or(r.config.Version, "unknown"))
}

// Close lets go of the data directories.
func (r *Recovery) Close() error {
	var errs []error
	for _, one := range r.remnants {
		errs = append(errs, one.close())
	}
	r.remnants = nil
	return errors.Join(errs...)
}
