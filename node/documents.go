package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/shard"
)

// systemNamespace is the namespace of document requests: the system shard has no keys.
const systemNamespace = "system"

// documentTimeout bounds one exchange with the system shard: an election fits into it.
const documentTimeout = 5 * time.Second

// errNoTable is the error of a request that needs the table, before this node knows one.
var errNoTable = &shard.Error{Code: shard.Unavailable, Message: "this node does not know the cluster's table yet; ask again"}

// documents is a client of the system shard: it reads and replaces its documents, wherever the shard is owned. The view learns
// every version that is seen. It holds no state; all methods may be called concurrently.
type documents struct {
	router *routing.Router
	view   *clusterView
}

// fetch reads a document.
func (d *documents) fetch(ctx context.Context, name string) (shard.Document, error) {
	all, err := d.fetchAll(ctx, []string{name})
	if err != nil {
		return shard.Document{}, err
	}
	return all[0], nil
}

// fetchedAtOnce is how many documents are read in one exchange: as many of the largest ones fit into a frame between nodes.
const fetchedAtOnce = 4

// fetchAll reads several documents, in their order.
func (d *documents) fetchAll(ctx context.Context, names []string) (all []shard.Document, err error) {
	for some := range slices.Chunk(names, fetchedAtOnce) {
		requests := make([]shard.Request, len(some))
		for i, name := range some {
			requests[i] = shard.Request{Op: shard.Fetch, Namespace: systemNamespace, Document: name}
		}
		for _, r := range d.submit(ctx, requests) {
			if r.Err != nil {
				return nil, r.Err
			}
			all = append(all, r.Decision.Document())
		}
	}
	return all, nil
}

// submit has one exchange with the system shard.
func (d *documents) submit(ctx context.Context, requests []shard.Request) []shard.Result {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	return d.router.Submit(ctx, shard.System, requests)
}

// swap replaces a document, if its version is the expected one.
func (d *documents) swap(ctx context.Context, name string, expect uint64, body []byte) (shard.Document, error) {
	return d.replace(ctx, shard.Request{Document: name, Expect: expect, Body: body})
}

// replace is swap with all the fields that a request may have, such as its actor.
func (d *documents) replace(ctx context.Context, request shard.Request) (shard.Document, error) {
	request.Op, request.Namespace = shard.Swap, systemNamespace
	r := d.submit(ctx, []shard.Request{request})[0]
	if r.Err != nil {
		return shard.Document{}, r.Err
	}
	document := r.Decision.Document()
	document.Body = request.Body
	return document, nil
}

// update replaces the newest version of a document by next's result, and returns what is in force then; no result changes nothing.
// next is called again after another node was faster. The request names the document, and may have an actor.
func (d *documents) update(ctx context.Context, request shard.Request, next func(shard.Document) ([]byte, error)) (shard.Document, error) {
	for {
		current, err := d.fetch(ctx, request.Document)
		if err != nil {
			return current, err
		}
		request.Expect = current.Version
		if request.Body, err = next(current); err != nil || request.Body == nil {
			return current, err
		}
		if current, err = d.replace(ctx, request); !isConflict(err) {
			return current, err
		}
	}
}

func isConflict(err error) bool {
	var e *shard.Error
	return errors.As(err, &e) && e.Code == shard.Conflict
}

// readTable learns the newest version of the table, and returns that version.
func (d *documents) readTable(ctx context.Context) (version uint64, err error) {
	document, err := d.fetch(ctx, placement.TableDocument)
	if err == nil {
		d.view.learnTable(document)
	}
	return document.Version, err
}

// readLevels learns the newest version of the levels.
func (d *documents) readLevels(ctx context.Context) error {
	document, err := d.fetch(ctx, placement.LevelsDocument)
	if err == nil {
		d.view.learnLevels(document)
	}
	return err
}

// writeFirstSecrets writes a secret as the first version of the secrets, or learns the version that is there.
func (d *documents) writeFirstSecrets(ctx context.Context, secret placement.Secret) error {
	document, err := d.swap(ctx, placement.SecretsDocument, 0, placement.NewSecrets(secret).Encode())
	if isConflict(err) {
		document, err = d.fetch(ctx, placement.SecretsDocument)
	}
	if err == nil {
		d.view.learnSecrets(document)
	}
	return err
}

// readSecrets learns the newest version of the secrets.
func (d *documents) readSecrets(ctx context.Context) error {
	document, err := d.fetch(ctx, placement.SecretsDocument)
	if err == nil && document.Version > 0 {
		d.view.learnSecrets(document)
	}
	return err
}

// changeSecrets replaces the newest version of the secrets by change's result; a nil result changes nothing.
func (d *documents) changeSecrets(ctx context.Context, change func(knownSecrets) *placement.Secrets) error {
	return d.change(ctx, placement.SecretsDocument, d.view.learnSecrets, func() (version uint64, text []byte, err error) {
		known := d.view.newestSecrets()
		if known.Secrets == nil {
			return 0, nil, errNoSecrets
		}
		if next := change(known); next != nil {
			text = next.Encode()
		}
		return known.version, text, nil
	})
}

// changeTable replaces the newest version of the table by change's result; a nil result changes nothing.
func (d *documents) changeTable(ctx context.Context, change func(t *placement.Table) *placement.Table) error {
	return d.change(ctx, placement.TableDocument, d.view.learnTable, func() (version uint64, text []byte, err error) {
		known := d.view.newestTable()
		if known.Table == nil {
			return 0, nil, errNoTable
		}
		if next := change(known.Table); next != nil {
			text = next.Encode()
		}
		return known.version, text, nil
	})
}

// changeLevels replaces the newest version of the levels by change's result; a nil result changes nothing.
func (d *documents) changeLevels(ctx context.Context, change func(*placement.Levels) (*placement.Levels, error)) error {
	return d.change(ctx, placement.LevelsDocument, d.view.learnLevels, func() (version uint64, text []byte, err error) {
		known := d.view.newestLevels()
		next, err := change(known.Levels)
		if err != nil || next == nil {
			return 0, nil, err
		}
		return known.version, next.Encode(), nil
	})
}

// ledgerDocument has the id of the cluster's bills, which is a part of the id of each. A restore keeps it, as it keeps all
// documents that it does not replace.
const ledgerDocument = "ledger"

// ledger returns that id. It is drawn when the first one asks.
func (d *documents) ledger(ctx context.Context) (string, error) {
	drawn := []byte(randomID())
	document, err := d.update(ctx, shard.Request{Document: ledgerDocument}, func(current shard.Document) ([]byte, error) {
		if current.Version > 0 {
			return nil, nil
		}
		return drawn, nil
	})
	return string(document.Body), err
}

// change replaces the newest version of a document. next returns the text that replaces the version it knows; no text changes
// nothing. It is called again after another node was faster. learn takes up each version that is seen.
func (d *documents) change(ctx context.Context, name string, learn func(shard.Document),
	next func() (version uint64, text []byte, err error)) error {
	for {
		version, text, err := next()
		if err != nil || text == nil {
			return err
		}
		document, err := d.swap(ctx, name, version, text)
		if err == nil {
			learn(document)
			return nil
		}
		if !isConflict(err) {
			return err
		}
		if document, err = d.fetch(ctx, name); err != nil {
			return err
		}
		learn(document)
	}
}
