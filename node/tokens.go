package node

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// tokens is what this node knows of the cluster's tokens: the documents of package auth, and how long ago they were the
// cluster's newest. It keeps the guard of all ports up to date. Writers take turns; all methods may be called concurrently.
//
// A node that starts does not let callers in by what it knew when it stopped, since a token may have been revoked meanwhile.
// It waits until it hears the owner of the system shard; if it hears nothing for tokensGrace, what it kept is in force.
type tokens struct {
	guard  *auth.Guard
	dir    *dataDir
	now    func() time.Time
	logger *slog.Logger
	fail   func(error)

	learning  turns                     // guards all below
	documents map[string]shard.Document // by name; those of version 0 are absent
	kept      bool                      // the documents are on disk, even if there are none
	heard     bool                      // the owner of the system shard was heard since the start
	began     time.Time                 // when this node began to wait for that; zero: it does not
	uses      auth.LastUses
	read      shard.Position // of the replica's state that learnFrom read last; owned by the reconciler
	lastUses
}

// tokensGrace is how long a node that starts waits for the newest tokens before it goes by those that it kept.
const tokensGrace = 3 * time.Second

// recordTokens is the name of the record that a node keeps once it has heard of the cluster's tokens. Each document has a
// record of its own name.
const recordTokens = "tokens-heard"

// newTokens makes the tokens of a node that belongs to no cluster yet. If it is to found one alone, nothing is there that a
// token could protect. Otherwise nobody is let in: a request that waits for the cluster would be served before its tokens are
// known.
func newTokens(dir *dataDir, alone bool, now func() time.Time, logger *slog.Logger, fail func(error)) *tokens {
	t := &tokens{guard: auth.NewGuard(now), dir: dir, now: now, logger: logger, fail: fail, learning: newTurns(),
		documents: make(map[string]shard.Document)}
	t.guard.Learn(&auth.Set{Known: alone, Outside: !alone}) //mutant:joining-node-admits-all
	return t
}

// join begins to wait for the tokens of the cluster that this node belongs to: nobody is let in before.
func (t *tokens) join() error {
	defer t.learning.take()()
	t.began = t.now()
	t.guard.Learn(&auth.Set{})
	if err := t.readUses(); err != nil {
		return err
	}
	found, err := t.dir.read(recordTokens, &struct{}{})
	if err != nil || !found {
		return err
	}
	for _, name := range auth.Documents() {
		var kept documentRecord
		if found, err := t.dir.read(name, &kept); err != nil {
			return err
		} else if found {
			t.documents[name] = shard.Document{Version: kept.Version, Body: kept.Text}
		}
	}
	t.kept = true
	return nil
}

// versions are the versions of the known documents.
func (t *tokens) versions() map[string]uint64 {
	defer t.learning.take()()
	versions := make(map[string]uint64, len(t.documents))
	for name, d := range t.documents {
		versions[name] = d.Version
	}
	return versions
}

// reportedBytes bounds the documents in one report; the others come with the next ones.
const reportedBytes = 1 << 20

// newer lists the documents that another node does not know, and whether more would follow.
func (t *tokens) newer(than map[string]uint64) (documents []placement.NamedDocument, more bool) {
	defer t.learning.take()()
	bytes := 0
	for _, name := range slices.Sorted(maps.Keys(t.documents)) {
		d := t.documents[name]
		if d.Version <= than[name] {
			continue
		}
		if bytes += len(d.Body); bytes > reportedBytes && len(documents) > 0 {
			return documents, true
		}
		documents = append(documents, placement.NamedDocument{Name: name, Version: d.Version, Body: d.Body})
	}
	return documents, false
}

// learn takes the documents that are newer than the known ones. They are on disk before they are in force: a node that restarts
// must not have forgotten that tokens are asked for.
func (t *tokens) learn(documents []placement.NamedDocument) {
	defer t.learning.take()()
	changed := false
	for _, d := range documents {
		if d.Version <= t.documents[d.Name].Version || !slices.Contains(auth.Documents(), d.Name) {
			continue
		}
		if err := t.dir.keep(d.Name, documentRecord{d.Version, d.Body}); err != nil {
			t.fail(err)
			return
		}
		t.documents[d.Name], changed = shard.Document{Version: d.Version, Body: d.Body}, true
	}
	if changed {
		t.enforce()
	}
}

// enforce puts what is known in force, once it may be. The caller has the turn.
func (t *tokens) enforce() {
	if !t.heard && !(t.kept && t.now().Sub(t.began) >= tokensGrace) { //mutant:starts-by-kept-tokens
		return
	}
	var head auth.Head
	var records []auth.Record
	required := false
	for _, name := range auth.Documents() {
		d, known := t.documents[name]
		if !known {
			continue
		}
		var err error
		if name == auth.HeadDocument {
			head, err = auth.DecodeHead(d.Body)
		} else {
			var some []auth.Record
			some, err = auth.DecodeBucket(d.Body)
			records, required = append(records, some...), true
		}
		if err != nil { // what was in force stays so, and nobody comes in by what cannot be read
			t.logger.Error("the cluster's tokens cannot be read: run a newer version", "document", name, "version", d.Version, "error", err)
			return
		}
	}
	t.guard.Learn(auth.NewSet(records, required && !head.Off, &t.uses))
}

// hear notes that what is known was the cluster's newest at an instant.
func (t *tokens) hear(at time.Time) {
	t.guard.Heard(at)
	defer t.learning.take()()
	if t.heard {
		return
	}
	if !t.kept {
		if err := t.dir.keep(recordTokens, struct{}{}); err != nil {
			t.fail(err)
			return
		}
	}
	t.heard, t.kept = true, true
	t.enforce()
}

// look is called again and again: it puts what was kept in force when nothing newer is heard for long.
func (t *tokens) look() {
	if t.guard.Set().Known {
		return
	}
	defer t.learning.take()()
	t.enforce()
}

// learnFrom learns from this node's own replica of the system shard. Only the reconciler calls it.
func (t *tokens) learnFrom(system *raftfsm.Group, owned bool) {
	at, known := t.now(), t.versions()
	var newer []placement.NamedDocument
	var unreadable error
	read := t.read
	system.View(func(s *shard.State) {
		if read = (shard.Position{Shard: shard.System, Epoch: s.Epoch(), Seq: s.Seq()}); read == t.read {
			return // nothing has changed since
		}
		for _, name := range auth.Documents() {
			d, err := shard.ReadNewerDocument(s, name, known[name])
			if err != nil {
				unreadable = err
			} else if d.Version > 0 {
				newer = append(newer, placement.NamedDocument{Name: name, Version: d.Version, Body: d.Body})
			}
		}
	})
	if unreadable != nil {
		t.logger.Error("a document of the cluster's tokens cannot be read; what was known before stays in force", "error", unreadable)
		return
	}
	t.learn(newer)
	t.read = read
	if owned {
		t.hear(at)
	}
}

// heardFrom learns from the report of another node. The owner of the system shard knows the newest tokens.
func (t *tokens) heardFrom(report *placement.Report) {
	t.learn(report.Tokens)
	if report.TokenUses != nil {
		t.learnUses(report.TokenUses)
	}
	if report.MoreTokens {
		return
	}
	for _, r := range report.Replicas {
		if r.Shard == shard.System && r.Open && r.Leading {
			t.hear(t.now())
		}
	}
}
