package restore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

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
	//mutant:restored-push-counts-twice
	if !r.DataExact() || !b.SystemExact() || *r.table.Slots != *before.Slots {
		if err := r.disableStripeSinks(system); err != nil {
			return err
		}
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

// disableStripeSinks disables the sinks of Stripe. What they were sent since the backup, or by another shard, would be
// sent again, and Stripe knows it for a day only.
func (r *Restore) disableStripeSinks(system *shard.State) error {
	document, err := shard.ReadDocument(system, notify.Document)
	if err != nil || document.Version == 0 {
		return err
	}
	sinks, err := notify.Decode(document.Body)
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	for i := range sinks {
		if s := &sinks[i]; s.Kind == notify.Stripe && s.Disabled == nil {
			s.Disabled = &notify.Disabled{At: int64(r.At), Why: "a restore may send bills again that Stripe has had, " +
				"and may count again: delete the sink and make it anew, or look there what it has, then enable it"}
		}
	}
	r.documents[notify.Document] = notify.Encode(sinks)
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
