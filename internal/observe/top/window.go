package top

import "slices"

// The lengths of windows, in microseconds.
const (
	second     = int64(1_000_000)
	ten        = 10 * second
	minute     = 60 * second
	tenMinutes = 10 * minute
	hour       = 60 * minute
)

// window is a window that has ended, or what the live one has when it is read. It is immutable.
type window struct {
	start int64             // microseconds since the Unix epoch
	of    [measures]Summary // by Measure
}

func (w *window) size() (n int) {
	for m := range w.of {
		n += w.of[m].size()
	}
	return n
}

// merged adds up the windows of different times, for one measure.
func merged(parts []*window, m int) Summary {
	sums := make([]Summary, len(parts))
	for i, w := range parts {
		sums[i] = w.of[m]
	}
	return Merge(sums, summaryKeys)
}

// ring has the newest windows of one length, the oldest first.
type ring struct {
	length  int64 // microseconds
	most    int   // windows that are kept
	windows []*window
}

func (r *ring) add(w *window) (dropped *window) {
	if len(r.windows) == r.most {
		dropped = r.windows[0]
		r.windows = slices.Delete(r.windows, 0, 1)
	}
	r.windows = append(r.windows, w)
	return dropped
}

// from lists the windows that start at an instant or later, the oldest first. The list is good until the next add.
func (r *ring) from(start int64) []*window {
	if i := slices.IndexFunc(r.windows, func(w *window) bool { return w.start >= start }); i >= 0 {
		return r.windows[i:]
	}
	return nil
}

// Span is how far back an answer looks.
type Span uint8

// The spans. Their numbers are sent between nodes.
const (
	Minute     Span = 0
	TenMinutes Span = 1
	Hour       Span = 2
)

// begin is the earliest start of a window that belongs to a span: windows that lie only partly in it are left out.
func (s Span) begin(now int64) int64 {
	back, length := hour, tenMinutes
	switch s {
	case Minute:
		back, length = minute, ten
	case TenMinutes:
		back, length = tenMinutes, minute
	}
	return (now - back + length - 1) / length * length
}
