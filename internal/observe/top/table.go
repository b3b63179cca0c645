package top

// Measure is a quantity that is counted for each key.
type Measure uint8

// The measures. Their numbers are sent between nodes.
const (
	Decisions Measure = 0
	Denials   Measure = 1
	Units     Measure = 2 // admitted
	measures          = 3
)

// Table counts the keys of one policy of a namespace.
type Table struct {
	since int64            // start of the counts, in microseconds since the Unix epoch
	start int64            // of the live window
	used  bool             // something was added to the live window
	live  [measures]Sketch // by Measure

	tens, minutes, tenMinutes ring // ended windows by length; each longer one is merged from shorter ones

	size int // bytes, as taken from the Budget
}

// tableSize estimates the memory of an empty Table in bytes: three sketches and their overhead.
const tableSize = measures*(sketchKeys*(48+2)+hashSlots+16) + 512

func newTable(since, now int64) *Table {
	return &Table{since: since, start: now - now%ten, size: tableSize,
		tens: ring{length: ten, most: 6}, minutes: ring{length: minute, most: 10},
		tenMinutes: ring{length: tenMinutes, most: 6}}
}

// add counts one decision about a key.
func (t *Table) add(hash uint64, key []byte, denied bool, units uint64) (grown int) {
	t.used = true
	grown = t.live[Decisions].Add(hash, key, 1)
	if denied {
		grown += t.live[Denials].Add(hash, key, 1)
	}
	if units > 0 {
		grown += t.live[Units].Add(hash, key, units)
	}
	t.size += grown
	return grown
}

// advance ends the live window if its time is over, and returns by how many bytes the table has grown. If time goes
// back, the window stays live.
func (t *Table) advance(now int64) (grown int) {
	now -= now % ten
	if now <= t.start {
		return 0
	}
	before := t.size
	if t.used {
		w := &window{start: t.start}
		for m := range t.live {
			w.of[m] = t.live[m].Summary(summaryKeys)
			t.live[m].clear()
		}
		t.keep(&t.tens, w)
		t.used = false
	}
	t.fold(now, &t.tens, &t.minutes)
	t.fold(now, &t.minutes, &t.tenMinutes)
	t.start = now
	return t.size - before
}

// fold merges the windows of the longer window that contains the live one, if that is over.
func (t *Table) fold(now int64, from, to *ring) {
	start := t.start - t.start%to.length
	if now-now%to.length == start {
		return
	}
	parts := from.from(start)
	if len(parts) == 0 {
		return
	}
	w := &window{start: start}
	for m := range w.of {
		w.of[m] = merged(parts, m)
	}
	t.keep(to, w)
}

// keep adds an ended window to a ring, from which the oldest may drop out, and adjusts the size.
func (t *Table) keep(in *ring, w *window) {
	t.size += w.size()
	if dropped := in.add(w); dropped != nil {
		t.size -= dropped.size()
	}
}

// idle reports whether nothing was added for longer than any window.
func (t *Table) idle(now int64) bool {
	for _, r := range []*ring{&t.tens, &t.minutes, &t.tenMinutes} {
		if n := len(r.windows); n > 0 && r.windows[n-1].start+r.length > now-hour {
			return false
		}
	}
	return !t.used
}

// read returns the windows of a span: the live one, and the longest ended ones that cover it. The table keeps no
// reference to the result.
func (t *Table) read(span Span, now int64) []*window {
	begin, live := span.begin(now), &window{start: t.start}
	for m := range t.live {
		live.of[m] = t.live[m].Summary(summaryKeys)
	}
	all := []*window{live}
	if span == Minute {
		return append(all, t.tens.from(begin)...)
	}
	all = append(all, t.tens.from(t.start-t.start%minute)...)
	if span == TenMinutes {
		return append(all, t.minutes.from(begin)...)
	}
	all = append(all, t.minutes.from(t.start-t.start%tenMinutes)...)
	return append(all, t.tenMinutes.from(begin)...)
}
