package restore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
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

// Document is the document of the system shard that says when the cluster was restored: a Record as JSON. It is
// replaced at each restore and never removed. Whatever has to be treated otherwise after a restore compares its own
// times with Record.At.
const Document = "restore"

// Record is the text of Document.
type Record struct {
	At      int64  // shard time at which the cluster continues, in Unix microseconds
	Backup  int64  // when the backup was begun, in Unix microseconds: what happened from then until At is lost
	Exact   bool   // nothing is lost: the backup was made by stint tool recover, from a majority of every shard
	Cluster string // from which the backup is
	Release string // that restored
	// Recovery says how the backup was made from disks, by whom, and what was lost; nil: it was made of a running
	// cluster.
	Recovery *backup.Recovery `json:",omitempty"`
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
	level       shard.Level
	table       *placement.Table // of the new cluster
	documents   map[string][]byte
	revision    uint64 // the newest revision of the policies that any shard has adopted
	index, term uint64 // where the logs of all shards begin
}

// Limit says how a limit continues.
type Limit struct {
	Policy, Limit string // Limit "": the policy's lockout
	Keeps         bool   // it continues with the backup's counts
	Never         bool   // it never resets, so it continues with the backup's counts in any case
	// FullUntil is when the last key, of whichever tier, is no longer full, or blocked; 0: it keeps.
	FullUntil limit.Time
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

func (r *Restore) continueShards(b *backup.Backup) (err error) {
	how := shard.Restoration{Slots: r.table.Slots, At: r.At, Now: limit.Time(r.config.Now.UnixMicro()), Before: r.index,
		Policies: r.Policies, Keep: r.config.Keep, Actor: r.config.Actor, Note: r.config.Note,
		From: recoveredFrom(r.Backup.Recovery),
		//mutant:exact-filled //mutant:inexact-not-filled
		Exact: r.DataExact()}
	if r.Data, r.Counts, err = shard.Continue(b.Data, how); err != nil {
		return err
	}
	r.System, err = shard.ContinueSystem(b.System, r.At, r.documents, r.revision)
	return err
}

// readDocuments reads the documents of the backup and makes those of the new cluster.
func (r *Restore) readDocuments(b *backup.Backup) (err error) {
	system := b.System
	var text []byte
	if r.Policies, r.revision, text, err = NewestPolicies(system, b.Data); err != nil {
		return fmt.Errorf("the backup's policies: %w", err)
	}
	document, err := shard.ReadDocument(system, placement.TableDocument)
	if err != nil {
		return err
	}
	before, err := placement.DecodeTable(document.Body)
	if err != nil {
		return fmt.Errorf("the backup's %w", err)
	}
	if before.Shards != r.Backup.Shards || before.Cluster != r.Backup.Cluster { //mutant:backup-of-other-shards
		return fmt.Errorf("the backup's header has %d shards of cluster %s, and its table %d of %s", r.Backup.Shards,
			r.Backup.Cluster, before.Shards, before.Cluster)
	}
	if r.table, err = r.tableAfter(before); err != nil {
		return err
	}
	secrets, err := r.secretsAfter(system)
	if err != nil {
		return err
	}
	if r.Policies.HashesAnyKeys() {
		if next := secrets.WithKeySecret(placement.RandomSecret()); next != nil {
			secrets, r.NewHashes = next, true
		}
	}
	record, err := json.Marshal(Record{At: int64(r.At), Backup: r.Backup.Begun, Cluster: r.Backup.Cluster,
		Release: r.config.Version, Exact: r.DataExact() && b.SystemExact(), Recovery: b.Recovery})
	if err != nil {
		return err
	}
	r.documents = map[string][]byte{
		placement.TableDocument:   r.table.Encode(),
		placement.LevelsDocument:  (&placement.Levels{Cluster: r.level, Release: r.config.Version}).Encode(),
		placement.SecretsDocument: secrets.Encode(),
		Document:                  record,
	}
	if text != nil {
		r.documents[placement.PoliciesDocument] = text
	}
	if b.SystemExact() { //mutant:tokens-of-an-older-shard
		return nil // no token was revoked since
	}
	return r.readTokens(system)
}

// NewestPolicies returns the newest policies that the system shard or a data shard knows. The picture of the system
// shard is the last one, so in a backup of a running cluster it has the newest; in a recovery from a minority it may
// not. text is nil unless a data shard has newer policies, of that revision.
func NewestPolicies(system *shard.State, data []*shard.State) (policies *policy.Set, revision uint64, text []byte,
	err error) {
	document, err := shard.ReadDocument(system, placement.PoliciesDocument)
	if err != nil {
		return nil, 0, nil, err
	}
	body := document.Body
	for _, state := range data {
		version, adopted, err := shard.Adopted(state)
		if err != nil {
			return nil, 0, nil, err
		}
		if version > max(document.Version, revision) { //mutant:older-policies-recovered
			revision, text, body = version, adopted, adopted
		}
	}
	if document.Version == 0 && text == nil {
		return nil, 0, nil, errors.New("there are none")
	}
	policies, err = policy.Parse("policies of the backup", body)
	return policies, revision, text, err
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

// readTokens takes from the tokens of the backup what a restored cluster must not believe (auth.AfterRestore).
func (r *Restore) readTokens(system *shard.State) error {
	for i := range auth.Buckets {
		name := auth.BucketName(i)
		document, err := shard.ReadDocument(system, name)
		if err != nil {
			return err
		}
		if document.Version == 0 {
			continue
		}
		records, err := auth.DecodeBucket(document.Body)
		if err != nil {
			return fmt.Errorf("the backup's tokens: %w", err)
		}
		r.documents[name] = auth.EncodeBucket(auth.AfterRestore(records))
	}
	return nil
}

// secretsAfter returns the secrets of the new cluster. A new one seals. Those of the backup open what the backup knows;
// what was sealed since is refused by the shard that was lost (shard.Continue).
func (r *Restore) secretsAfter(system *shard.State) (*placement.Secrets, error) {
	document, err := shard.ReadDocument(system, placement.SecretsDocument)
	if err != nil {
		return nil, err
	}
	if document.Version == 0 {
		return placement.NewSecrets(placement.RandomSecret()), nil
	}
	secrets, err := placement.DecodeSecrets(document.Body)
	if err != nil {
		return nil, fmt.Errorf("the backup's %w", err)
	}
	return secrets.AfterRestore(placement.RandomSecret(), time.UnixMicro(int64(r.At))), nil
}

// tableAfter returns the table of the new cluster: one node that has all replicas. Other nodes join it as they join any
// cluster.
func (r *Restore) tableAfter(before *placement.Table) (*placement.Table, error) {
	shards := cmp.Or(r.config.Shards, before.Shards)
	if shards > placement.MaxShards {
		return nil, fmt.Errorf("shards: %d is not between 1 and %d", shards, placement.MaxShards)
	}
	node := placement.Node{ID: r.Node, Version: r.config.Version}
	t := placement.NewTable(r.Cluster, []placement.Node{node}, shards, before.Replicas)
	t.Level = r.level
	for i := range t.Groups {
		for j := range t.Groups[i].Replicas {
			t.Groups[i].Replicas[j].Created = true // if its stores are missing, they are lost
		}
	}
	return t, nil
}

// checkKeep refuses to keep what no policy has. Inline limits are named by "~" and their label; those are not listed.
func (r *Restore) checkKeep() error {
	for i, k := range r.config.Keep {
		if label, inline := strings.CutPrefix(k.Policy, "~"); inline {
			r.config.Keep[i].Policy = label
			continue
		}
		p, known := r.Policies.Lookup(k.Policy)
		if !known {
			return fmt.Errorf("keep: the backup has no policy %q", k.Policy)
		}
		if k.Limit != "" && !slices.ContainsFunc(p.Limits, func(l policy.Limit) bool { return l.Name == k.Limit }) {
			return fmt.Errorf("keep: policy %q has no limit %q", k.Policy, k.Limit)
		}
	}
	return nil
}

// EndsOf says for each limit until when it is full.
func EndsOf(policies *policy.Set, at limit.Time, keeps func(policy, limit string) bool) (ends []Limit) {
	full := limit.Full{At: at, Hold: shard.MaxHoldTTL}
	for _, name := range policies.Names() {
		p, _ := policies.Lookup(name)
		for i := range p.Limits {
			l := &p.Limits[i]
			end := Limit{Policy: name, Limit: l.Name, Keeps: l.OnRecovery == policy.RecoverKeep || keeps(name, l.Name),
				Never: l.Algorithm == limit.Lifetime || l.Algorithm == limit.Unlimited}
			for _, limits := range p.EveryTier() {
				if !end.Keeps {
					end.FullUntil = max(end.FullUntil,
						limit.ForgetAt(limits[i].Limit, shard.FullOf(p, full).With(limits[i].Limit, limit.State{})))
				}
			}
			ends = append(ends, end)
		}
		if p.Lockout != nil {
			end := Limit{Policy: name, Keeps: keeps(name, "")}
			if !end.Keeps {
				end.FullUntil = at + limit.Time(p.Lockout.Max)
			}
			ends = append(ends, end)
		}
	}
	return ends
}

func (r *Restore) keeps(policy, limit string) bool {
	return slices.ContainsFunc(r.config.Keep, func(k shard.Kept) bool {
		return k.Policy == policy && (k.Limit == "" || k.Limit == limit)
	})
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
