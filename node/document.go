package node

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// document is one document of the system shard, with a V as its content: the newest version that this node knows, and
// how it reads, changes and keeps it. What a node knows may not be the newest, but never goes back to an older version.
// A V is never changed once it was handed on. All methods may be called concurrently.
type document[V any] struct {
	documentConfig[V]
	newest atomic.Pointer[known[V]]
}

// documentConfig is what a document needs.
type documentConfig[V any] struct {
	of   *documents
	name string // in the system shard, and of the record on disk
	what string // its content in errors and in the log: "the cluster's" what

	// decode reads a version, but never version 0, and encode writes one. Without them the content is JSON.
	decode func(shard.Document) (*V, error)
	encode func(*V) []byte
	none   *V // while no version is known; without it an empty V

	// kept means that a version is on disk before it is known: a restarted node must not act as if it had never heard
	// of it.
	kept bool
	// admit sees a version before it is kept. An error stops the node, which must not serve in a cluster that it cannot
	// follow.
	admit func(*V) error
	// learned is called after a version became known, one call at a time for all documents of the node. It must not
	// learn one itself, as it has the turn. A version that was kept before the start is admitted, and not told here.
	learned func(before, now known[V])
}

// known is a version of a document, with its text as other nodes receive it.
type known[V any] struct {
	value   *V
	version uint64 // 0: none is known
	text    []byte
}

func (k known[V]) document() shard.Document { return shard.Document{Version: k.version, Body: k.text} }

func newDocument[V any](config documentConfig[V]) *document[V] {
	if config.decode == nil {
		config.decode = func(d shard.Document) (value *V, err error) { return value, json.Unmarshal(d.Body, &value) }
		config.encode = func(value *V) []byte {
			text, err := json.Marshal(value)
			if err != nil {
				panic(fmt.Sprintf("node: the %s cannot be written: %v", config.what, err)) // only texts and numbers
			}
			return text
		}
	}
	if config.none == nil {
		config.none = new(V)
	}
	return &document[V]{documentConfig: config}
}

// now returns the newest known version.
func (d *document[V]) now() known[V] {
	if newest := d.newest.Load(); newest != nil {
		return *newest
	}
	return known[V]{value: d.none}
}

// copy is the newest known version as it travels to other nodes.
func (d *document[V]) copy() placement.NamedDocument {
	return placement.NamedDocument{Name: d.name, Document: d.now().document()}
}

// fetch learns the newest version, and returns what is known then.
func (d *document[V]) fetch(ctx context.Context) (known[V], error) {
	all, err := d.of.fetchAll(ctx, d.name)
	if err == nil {
		err = d.learn(all[0].Document)
	}
	return d.now(), err
}

// swap writes the version after the expected one, learns it, and returns its number. The error is a conflict if the
// newest one is another than the expected one.
func (d *document[V]) swap(ctx context.Context, by *shard.Adjustment, expect uint64, value *V) (version uint64,
	err error) {
	request := shard.Request{
		Op:         shard.Swap,
		Namespace:  systemNamespace,
		Document:   d.name,
		Expect:     expect,
		Body:       d.encode(value),
		Adjustment: by,
	}
	r := d.of.exchange(ctx, request)[0]
	if r.Err != nil {
		return 0, r.Err
	}
	version = r.Decision.Answer().Document.Version
	return version, d.learn(shard.Document{Version: version, Body: request.Body})
}

// change replaces the known version by next's result; nil changes nothing. next is called again, with the newest
// version, after another node was faster, until ctx ends. It may be called with a version that is not the newest: what
// it refuses or leaves alone by that one, the caller reads first (update).
func (d *document[V]) change(ctx context.Context, by *shard.Adjustment, next func(known[V]) (*V, error)) error {
	for {
		now := d.now()
		value, err := next(now)
		if err != nil || value == nil {
			return err
		}
		if _, err = d.swap(ctx, by, now.version, value); !isConflict(err) {
			return err
		}
		if _, err := d.fetch(ctx); err != nil {
			return err
		}
	}
}

// update is change of a version that was the newest when update was called.
func (d *document[V]) update(ctx context.Context, by *shard.Adjustment, next func(known[V]) (*V, error)) error {
	if _, err := d.fetch(ctx); err != nil {
		return err
	}
	return d.change(ctx, by, next)
}

// found writes the first version, unless there is one already, and learns which one it is.
func (d *document[V]) found(ctx context.Context, by *shard.Adjustment, first *V) error {
	return d.change(ctx, by, func(now known[V]) (*V, error) {
		if now.version > 0 {
			return nil, nil
		}
		return first, nil
	})
}

// learn takes a version that is newer than the known one, and ignores any other. One that cannot be decoded leaves the
// known one in force; after every other error the node stops.
func (d *document[V]) learn(newer shard.Document) error {
	defer d.of.learning.take()()
	before := d.now()
	if newer.Version <= before.version {
		return nil
	}
	value, err := d.decode(newer)
	if err != nil {
		d.of.logger.Error("the cluster's "+d.what+" cannot be read: run a newer version", "document", d.name,
			"version", newer.Version, "error", err)
		return err
	}
	if d.admit != nil {
		if err := d.admit(value); err != nil {
			d.of.fail(err)
			return err
		}
	}
	if d.kept {
		if err := d.of.dir.keep(d.name, newer); err != nil {
			d.of.fail(err)
			return err
		}
	}
	now := known[V]{value, newer.Version, newer.Body}
	d.newest.Store(&now)
	if d.learned != nil {
		d.learned(before, now)
	}
	return nil
}

// readKept restores the version that this node kept before it started, if any.
func (d *document[V]) readKept() error {
	var kept shard.Document
	found, err := d.of.dir.read(d.name, &kept)
	if err != nil || !found || !d.kept {
		return err
	}
	value, err := d.decode(kept)
	if err != nil {
		return fmt.Errorf("the %s kept in the data directory: %w", d.what, err)
	}
	if d.admit != nil {
		if err := d.admit(value); err != nil {
			return err
		}
	}
	d.newest.Store(&known[V]{value, kept.Version, kept.Body})
	return nil
}

// pointTo makes what a decoder returns the content of a document.
func pointTo[V any](value V, err error) (*V, error) { return &value, err }
