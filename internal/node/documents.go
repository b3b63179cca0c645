package node

import (
	"context"
	"errors"
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
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	r := d.router.Submit(ctx, shard.System, []shard.Request{{Op: shard.Fetch, Namespace: systemNamespace, Document: name}})[0]
	if r.Err != nil {
		return shard.Document{}, r.Err
	}
	return r.Decision.Document(), nil
}

// swap replaces a document, if its version is the expected one.
func (d *documents) swap(ctx context.Context, name string, expect uint64, body []byte) (shard.Document, error) {
	return d.replace(ctx, shard.Request{Document: name, Expect: expect, Body: body})
}

// replace is swap with all the fields that a request may have, such as its actor.
func (d *documents) replace(ctx context.Context, request shard.Request) (shard.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	request.Op, request.Namespace = shard.Swap, systemNamespace
	r := d.router.Submit(ctx, shard.System, []shard.Request{request})[0]
	if r.Err != nil {
		return shard.Document{}, r.Err
	}
	document := r.Decision.Document()
	document.Body = request.Body
	return document, nil
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
