package decisions

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/shard"
)

// Bus is the listener that passes the decisions of one node, and the changes of keys that it owns, to readers and the
// decision log. nil passes nothing on.
type Bus struct {
	node  string                   // id of the node
	heard atomic.Pointer[audience] // nil if there are no listeners; replaced, never changed

	mu sync.Mutex // held while the audience is replaced
}

// audience is the listeners.
type audience struct {
	readers []*Reader
	kinds   uint8 // the bits of all kinds that some reader wants
	log     *Log  // nil if there is none
}

// NewBus makes the bus of a node. log is the decision log, or nil.
func NewBus(node string, log *Log) *Bus {
	b := &Bus{node: node}
	if log != nil {
		b.heard.Store(&audience{log: log})
	}
	return b
}

// Listening reports whether there is a listener.
func (b *Bus) Listening() bool { return b != nil && b.heard.Load() != nil }

// Ended implements Listener. Without a reader and a log it costs one atomic load.
func (b *Bus) Ended(e *Event) {
	if !b.Listening() {
		return
	}
	asked := e.Questions()
	for i := range asked {
		a := &asked[i]
		for j := range a.Results {
			if !a.counts(j) {
				continue
			}
			r, d := &a.Requests[j], &a.Results[j].Decision
			watched, weight := b.draw(kindOf(r, d), PolicyName(&r.Entries[mainEntry(r, d)]))
			if watched || weight > 0 {
				b.Put(e.record(b.node, a, j), weight)
			}
		}
	}
}

// draw reports whether a reader wants a decision of this kind, and the number of decisions that its log line stands
// for; 0 if the log leaves it out. It is called once for each decision, before its Record is made.
func (b *Bus) draw(kind Kind, policy string) (watched bool, weight uint64) {
	to := b.heard.Load()
	if to == nil {
		return false, 0
	}
	if to.log != nil {
		weight = to.log.sampler.weight(kind, policy)
	}
	return to.kinds&kind.bit() != 0, weight
}

// changes are the kinds other than decisions.
var changes = Threshold.bit() | Lockout.bit() | Change.bit()

// WantsChanges reports whether a reader wants changes of keys besides decisions.
func (b *Bus) WantsChanges() bool {
	to := b.heard.Load()
	return to != nil && to.kinds&changes != 0
}

// Changed passes on committed changes of keys that this node owns. The bus keeps the slice.
func (b *Bus) Changed(all []shard.Happening) {
	for i := range all {
		h := &all[i]
		e := &Record{At: time.UnixMicro(int64(h.At)).UTC(), Kind: Change, Namespace: h.Namespace, Node: b.node,
			Entry: Entry{Policy: h.Policy, Key: h.Key}, Happened: h}
		if h.Fired != nil {
			e.Kind = Threshold
		} else if h.Lockout != nil {
			e.Kind = Lockout
		}
		b.Put(e, 0)
	}
}

// Put passes on a record with draw's weight, or 0 if it is no decision. The record belongs to the bus from now on.
func (b *Bus) Put(e *Record, weight uint64) {
	to := b.heard.Load()
	if to == nil {
		return
	}
	e.Weight = 1
	if weight > 0 && to.log != nil {
		to.log.put(e, weight)
	}
	for _, r := range to.readers {
		if r.filter.Wants(e) {
			r.Push(e)
		}
	}
}

// Open makes a reader of the events that match a filter, which must not be changed any more. The caller must close the
// reader.
func (b *Bus) Open(f *Filter) *Reader {
	r := &Reader{bus: b, filter: f, ready: make(chan struct{}, 1)}
	b.change(func(readers []*Reader) []*Reader { return append(readers, r) })
	return r
}

// change replaces the readers by what to makes of a copy of them.
func (b *Bus) change(to func([]*Reader) []*Reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := audience{}
	if now := b.heard.Load(); now != nil {
		next.log, next.readers = now.log, slices.Clone(now.readers)
	}
	next.readers = to(next.readers)
	for _, r := range next.readers {
		next.kinds |= r.filter.bits()
	}
	if len(next.readers) == 0 && next.log == nil {
		b.heard.Store(nil)
		return
	}
	b.heard.Store(&next)
}
