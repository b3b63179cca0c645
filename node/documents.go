package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/raftfsm"
	"github.com/stint-io/stint/shard"
)

// systemNamespace is the namespace of document requests: the system shard has no keys.
const systemNamespace = "system"

// documentTimeout bounds one exchange with the system shard: an election fits into it.
const documentTimeout = 5 * time.Second

// documents are the documents of the system shard: the way to them, wherever the shard is owned, and those that nodes
// tell each other. All methods may be called concurrently, except for those that say otherwise.
type documents struct {
	router *routing.Router // set before the first exchange
	dir    *dataDir        // nil on an edge, which keeps nothing
	logger *slog.Logger
	fail   func(error)

	learning turns // of all documents: held while one is admitted, kept and told
	// shared are those that every node knows, in the order in which a node learns them: what may be written and the
	// secrets before the table, without which no request is served. Set before any other goroutine is started.
	shared     []sharedDocument
	bills      *document[string] // the id of the cluster's bills; not shared: it is read when one needs it (ledger)
	read       shard.Position    // of the replica's state that learnFrom read last; owned by the reconciler
	unreadable bool              // learnFrom has logged that a document cannot be read; owned by the reconciler
}

// sharedDocument is a document that nodes tell each other, whatever it contains.
type sharedDocument interface {
	copy() placement.NamedDocument
	learn(shard.Document) error
	readKept() error
}

func newDocuments(dir *dataDir, logger *slog.Logger, fail func(error)) *documents {
	d := &documents{dir: dir, logger: logger, fail: fail, learning: newTurns()}
	d.bills = newDocument(documentConfig[string]{
		of:     d,
		name:   ledgerDocument,
		what:   "ledger",
		decode: func(d shard.Document) (*string, error) { return pointTo(string(d.Body), nil) },
		encode: func(id *string) []byte { return []byte(*id) },
	})
	return d
}

// fetchedAtOnce is how many documents are read in one exchange: as many of the largest ones fit into a frame between
// nodes.
const fetchedAtOnce = 4

// fetchAll reads the newest versions of documents, in their order. Nothing learns them.
func (d *documents) fetchAll(ctx context.Context, names ...string) (all []placement.NamedDocument, err error) {
	for some := range slices.Chunk(names, fetchedAtOnce) {
		requests := make([]shard.Request, len(some))
		for i, name := range some {
			requests[i] = shard.Request{Op: shard.Fetch, Namespace: systemNamespace, Document: name}
		}
		for i, r := range d.exchange(ctx, requests...) {
			if r.Err != nil {
				return nil, r.Err
			}
			all = append(all, placement.NamedDocument{Name: some[i], Document: r.Decision.Answer().Document})
		}
	}
	return all, nil
}

// exchange has one exchange with the system shard.
func (d *documents) exchange(ctx context.Context, requests ...shard.Request) []shard.Result {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	return d.router.Submit(ctx, shard.System, requests)
}

func isConflict(err error) bool { return hasCode(err, shard.Conflict) }

func hasCode(err error, code shard.Code) bool {
	e, ok := errors.AsType[*shard.Error](err)
	return ok && e.Code == code
}

// history returns the remembered changes of documents, in no order. The note of a change is "verb", "verb name" or
// "verb name: text": in its record the deed is kind and the verb, the key the name, and the note the text.
func (d *documents) history(ctx context.Context, kind string, names ...string) (all []shard.AuditRecord, err error) {
	histories := make([]string, len(names))
	for i, name := range names {
		histories[i] = shard.HistoryOf(name)
	}
	fetched, err := d.fetchAll(ctx, histories...)
	if err != nil {
		return nil, err
	}
	for _, history := range fetched {
		changes, err := shard.DocumentChanges(history.Document)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			r := c.AuditRecord
			what, note, _ := strings.Cut(r.Note, ": ")
			verb, name, _ := strings.Cut(what, " ")
			r.Deed, r.Key, r.Note = kind+" "+verb, name, note
			all = append(all, r)
		}
	}
	return all, nil
}

// adjustmentBy is the actor of a change and its note, as a document's history has them.
func adjustmentBy(who, note string) *shard.Adjustment {
	return &shard.Adjustment{Actor: who, Note: strings.ToValidUTF8(note[:min(len(note), shard.MaxNote)], "")}
}

// readKept restores what this node kept before it started.
func (d *documents) readKept() error {
	for _, one := range d.shared {
		if err := one.readKept(); err != nil {
			return err
		}
	}
	return nil
}

// versions are the versions of the shared documents that this node knows, by name.
func (d *documents) versions() map[string]uint64 {
	versions := make(map[string]uint64)
	for _, one := range d.shared {
		if known := one.copy(); known.Version > 0 {
			versions[known.Name] = known.Version
		}
	}
	return versions
}

// reportedBytes bounds the documents in one report; the others come with the next ones.
const reportedBytes = 1 << 20

// newer lists the shared documents that another node does not know, and whether more would follow.
func (d *documents) newer(than map[string]uint64) (newer []placement.NamedDocument, more bool) {
	bytes := 0
	for _, one := range d.shared {
		known := one.copy()
		if known.Version <= than[known.Name] {
			continue
		}
		if bytes += len(known.Body); bytes > reportedBytes && len(newer) > 0 {
			return newer, true
		}
		newer = append(newer, known)
	}
	return newer, false
}

// ofEdges returns the newest known version of a shared document that edges may have. What seals ids and hashes keys is
// for nodes alone.
func (d *documents) ofEdges(name string) (newest shard.Document, ok bool) {
	for _, one := range d.shared {
		if known := one.copy(); known.Name == name && forEdges(one) {
			return known.Document, true
		}
	}
	return shard.Document{}, false
}

// forEdges reports whether edges may have a shared document: the policies, the table and the tokens.
func forEdges(one sharedDocument) bool {
	name := one.copy().Name
	return name != placement.SecretsDocument && name != placement.LevelsDocument //mutant:secrets-for-edges
}

// learn takes those that are newer than the known ones, and reports whether all could be learned.
func (d *documents) learn(newer []placement.NamedDocument) bool {
	learned := true
	for _, one := range d.shared {
		for i := range newer {
			if newer[i].Name == one.copy().Name {
				learned = one.learn(newer[i].Document) == nil && learned
			}
		}
	}
	return learned
}

// learnFrom learns from this node's own replica of the system shard, and reports whether it knows then all that the
// replica has. Only the reconciler calls it.
func (d *documents) learnFrom(system *raftfsm.Group) bool {
	var newer []placement.NamedDocument
	var unreadable error
	read := d.read
	system.View(func(s *shard.State) {
		if read = (shard.Position{Shard: shard.System, Epoch: s.Epoch(), Seq: s.Seq()}); read == d.read {
			return // nothing has changed since
		}
		for _, one := range d.shared {
			known := one.copy()
			d, err := shard.ReadNewerDocument(s, known.Name, known.Version)
			if err != nil {
				unreadable = err
			} else if d.Version > 0 {
				newer = append(newer, placement.NamedDocument{Name: known.Name, Document: d})
			}
		}
	})
	if unreadable != nil && !d.unreadable {
		d.logger.Error("a document of the system shard cannot be read; what was known before stays in force",
			"error", unreadable)
		d.unreadable = true
	}
	if !d.learn(newer) || unreadable != nil {
		return false
	}
	d.read = read
	return true
}

// ledgerDocument has the id of the cluster's bills, which is a part of the id of each. A restore keeps it, as it keeps
// all documents that it does not replace.
const ledgerDocument = "ledger"

// ledger returns that id. It is drawn when the first one asks.
func (d *documents) ledger(ctx context.Context) (string, error) {
	drawn := placement.RandomID()
	err := d.bills.found(ctx, nil, &drawn)
	return *d.bills.now().value, err
}
