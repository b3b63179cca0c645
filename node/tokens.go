package node

import (
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// tokens is what this node knows of the cluster's tokens: the documents of package auth, and how long ago they were the
// cluster's newest. It keeps the guard of all ports up to date. Writers take turns; all methods may be called
// concurrently.
//
// A node that starts does not let callers in by what it knew when it stopped, since a token may have been revoked
// meanwhile. It waits until it hears the owner of the system shard; if it hears nothing for tokensGrace, what it kept
// is in force.
type tokens struct {
	guard *auth.Guard
	dir   *dataDir // nil on an edge
	now   func() time.Time
	fail  func(error)

	head    *document[auth.Head]
	buckets map[string]*document[[]auth.Record] // by name

	learning turns     // guards all below
	kept     bool      // the documents are on disk, even if there are none
	heard    bool      // the owner of the system shard was heard since the start
	began    time.Time // when this node began to wait for that; zero: it does not
	lastUses
}

// tokensGrace is how long a node that starts waits for the newest tokens before it goes by those that it kept.
const tokensGrace = 3 * time.Second

// recordTokens is the name of the record that a node keeps once it has heard of the cluster's tokens. Each document has
// a record of its own name.
const recordTokens = "tokens-heard"

// newTokens makes the tokens of a node that belongs to no cluster yet. If it is to found one alone, nothing is there
// that a token could protect. Otherwise no caller is let in: a request that waits for the cluster would be served
// before its tokens are known.
func newTokens(of *documents, alone bool, now func() time.Time) *tokens {
	t := &tokens{guard: auth.NewGuard(now), dir: of.dir, now: now, fail: of.fail, learning: newTurns(),
		buckets: make(map[string]*document[[]auth.Record], auth.Buckets)}
	t.head = newDocument(documentConfig[auth.Head]{
		of:      of,
		name:    auth.HeadDocument,
		what:    "tokens",
		kept:    true,
		learned: func(_, _ known[auth.Head]) { t.learned() },
	})
	for i := range auth.Buckets {
		t.buckets[auth.BucketName(i)] = newDocument(documentConfig[[]auth.Record]{
			of:      of,
			name:    auth.BucketName(i),
			what:    "tokens",
			decode:  func(d shard.Document) (*[]auth.Record, error) { return pointTo(auth.DecodeBucket(d.Body)) },
			encode:  func(records *[]auth.Record) []byte { return auth.EncodeBucket(*records) },
			kept:    true,
			learned: func(_, _ known[[]auth.Record]) { t.learned() },
		})
	}
	t.guard.Learn(&auth.Set{Known: alone, Outside: !alone}) //mutant:joining-node-admits-all
	return t
}

// shared lists the documents of the tokens.
func (t *tokens) shared() []sharedDocument {
	all := []sharedDocument{t.head}
	for i := range auth.Buckets {
		all = append(all, t.buckets[auth.BucketName(i)])
	}
	return all
}

// join begins to wait for the tokens of the cluster that this node belongs to: no caller is let in before.
func (t *tokens) join() (err error) {
	defer t.learning.take()()
	t.began = t.now()
	t.guard.Learn(&auth.Set{})
	if err := t.readUses(); err != nil {
		return err
	}
	t.kept, err = t.dir.read(recordTokens, &struct{}{})
	return err
}

// names lists the documents of the tokens of which this node knows a version: none if the cluster never had a token.
func (t *tokens) names() (names []string) {
	for _, d := range t.shared() {
		if known := d.copy(); known.Version > 0 {
			names = append(names, known.Name)
		}
	}
	return names
}

// learned puts a newer document in force.
func (t *tokens) learned() {
	defer t.learning.take()()
	t.enforce()
}

// enforce puts what is known in force, once it may be. The caller has the turn.
func (t *tokens) enforce() {
	if !t.heard && !(t.kept && t.now().Sub(t.began) >= tokensGrace) { //mutant:starts-by-kept-tokens
		return
	}
	var records []auth.Record
	required := false
	for _, bucket := range t.buckets {
		now := bucket.now()
		records, required = append(records, *now.value...), required || now.version > 0
	}
	t.guard.Learn(auth.NewSet(records, required && !t.head.now().value.Off, t.guard.Set()))
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

// heardFrom learns from the report of another node. The owner of the system shard knows the newest tokens; learned says
// that this node has learned all documents of the report.
func (t *tokens) heardFrom(report *placement.Report, learned bool) {
	if report.TokenUses != nil {
		t.learnUses(report.TokenUses)
	}
	if report.More || !learned {
		return
	}
	for _, r := range report.Replicas {
		if r.Shard == shard.System && r.Open && r.Leading {
			t.hear(t.now())
		}
	}
}
