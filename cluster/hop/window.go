package hop

import "github.com/stint-io/stint/shard"

// Bounds of a connection, for all shards together. A shard that is alone gets half.
const (
	maxCallsUnderWay = 4096
	maxBytesUnderWay = 32 << 20
)

// window bounds the calls in flight on one connection, at either end. A shard may use as much as it leaves free for all
// others. So a shard that does not answer takes at most half and never stops its neighbors, and no share is reserved
// for idle shards. (A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for shared-memory packet
// switches", 1998, with alpha = 1.) Not for concurrent use.
type window struct {
	all    load              // the sum of shards
	shards map[shard.ID]load // without shards that have no calls
}

type load struct{ calls, bytes int }

func newWindow() window { return window{shards: make(map[shard.ID]load)} }

// take reserves room for a call. It returns false if there is none.
func (w *window) take(id shard.ID, bytes int) bool {
	own := w.shards[id]
	if own.calls >= maxCallsUnderWay-w.all.calls || own.bytes+bytes > maxBytesUnderWay-w.all.bytes {
		return false
	}
	w.set(id, own, load{1, bytes})
	return true
}

// give releases the room that take reserved.
func (w *window) give(id shard.ID, bytes int) { w.set(id, w.shards[id], load{-1, -bytes}) }

// resize changes the byte count of a call in flight.
func (w *window) resize(id shard.ID, more int) { w.set(id, w.shards[id], load{0, more}) }

func (w *window) set(id shard.ID, own, change load) {
	own.calls += change.calls
	own.bytes += change.bytes
	w.all.calls += change.calls
	w.all.bytes += change.bytes
	if own.calls == 0 {
		delete(w.shards, id)
		return
	}
	w.shards[id] = own
}
