package top

import (
	"hash/maphash"
	"strings"
)

// Board has the tables of one shard. One goroutine owns it.
type Board struct {
	budget *Budget
	since  int64 // start of a new table's counts, in microseconds since the Unix epoch
	now    int64 // of the batch being added; it never goes back
	tables map[name]*Table

	newest      name   // the name of newestTable; most entries of a batch have the same policy
	newestTable *Table // nil: look into tables
	key         []byte // of the entry being added; reused
}

type name struct{ namespace, policy string }

// shared names the table of all policies without a table of their own: their names are in its keys.
var shared name

// NewBoard makes the board of a shard that this node owns since an instant, in microseconds since the Unix epoch.
func NewBoard(b *Budget, now int64) *Board {
	return &Board{budget: b, since: now, now: now, tables: make(map[name]*Table)}
}

// Advance sets the instant of the following decisions.
func (b *Board) Advance(now int64) {
	before := b.now
	b.now = max(now, b.now)
	if b.now/ten == before/ten {
		return
	}
	for n, t := range b.tables {
		switch grown := t.advance(b.now); {
		case t.idle(b.now):
			b.budget.used.Add(int64(grown))
			b.forget(n, t)
		case !b.budget.take(grown, b.budget.most):
			t.size -= grown
			b.drop(n, t)
		}
	}
}

// Add counts a decision about a key, and its admitted units.
func (b *Board) Add(namespace, policy, key string, denied bool, units uint64) {
	n := name{namespace, policy}
	t := b.newestTable
	if t == nil || n != b.newest {
		if t = b.of(n, b.budget.ownTables()); t == nil {
			b.addToShared(n, key, denied, units)
			return
		}
		b.newest, b.newestTable = n, t
	}
	b.key = append(b.key[:0], key...)
	b.count(n, t, denied, units)
}

// count adds b.key to a table. A table that has no room to grow is dropped.
func (b *Board) count(n name, t *Table, denied bool, units uint64) {
	if grown := t.add(maphash.Bytes(b.budget.seed, b.key), b.key, denied, units); grown > 0 &&
		!b.budget.take(grown, b.budget.most) {
		t.size -= grown
		b.drop(n, t)
	}
}

// of returns a table, and makes it if there is none; nil if there is no room for it within the first bytes of the
// budget.
func (b *Board) of(n name, within int64) *Table {
	t := b.tables[n]
	if t == nil && b.budget.take(tableSize, within) {
		n = name{strings.Clone(n.namespace), strings.Clone(n.policy)} // must not refer to a request's memory
		t = newTable(b.since, b.now)
		b.tables[n] = t
	}
	return t
}

// addToShared counts a key of a policy without a table. A table that the policy gets later begins with this count.
func (b *Board) addToShared(n name, key string, denied bool, units uint64) {
	t := b.of(shared, b.budget.most)
	b.since = b.now
	if t == nil {
		return
	}
	b.key = append(append(append(b.key[:0], n.namespace...), 0), n.policy...)
	b.key = append(append(b.key, 0), key...)
	b.count(shared, t, denied, units)
}

// drop ends a table that has no room to grow. Its policy is counted from the beginning again.
func (b *Board) drop(n name, t *Table) {
	b.since = b.now
	b.forget(n, t)
}

// forget ends a table with nothing to count any more.
func (b *Board) forget(n name, t *Table) {
	b.budget.used.Add(int64(-t.size))
	delete(b.tables, n)
	b.newest, b.newestTable = name{}, nil
}

// Close returns the memory of the board to the budget. The board is empty afterwards.
func (b *Board) Close(now int64) {
	for n, t := range b.tables {
		b.forget(n, t)
	}
	b.since, b.now = now, max(b.now, now)
}

// Read returns what the board knows of the policies in a query, at an instant. The result is immutable.
func (b *Board) Read(q *Query, now int64) (parts []Part) {
	b.Advance(now)
	for n, t := range b.tables {
		if n == shared || q.wants(n.namespace, n.policy) {
			parts = append(parts, Part{policy: n.policy, since: max(t.since, q.Span.begin(b.now)),
				windows: t.read(q.Span, b.now)})
		}
	}
	return parts
}

// Part is the windows of one table, read from a Board. Collect turns parts into Counts, outside the owner's time.
type Part struct {
	policy  string    // "" of the shared table, with keys that begin with namespaces and policies
	since   int64     // as in List
	windows []*window // disjoint; immutable
}

// nameIn splits the key of a shared table: namespace, policy and key, with a zero byte between. None of the first two
// has one.
func nameIn(key string) (n name, rest string) {
	namespace, after, _ := strings.Cut(key, "\x00")
	policy, rest, _ := strings.Cut(after, "\x00")
	return name{namespace, policy}, rest
}
