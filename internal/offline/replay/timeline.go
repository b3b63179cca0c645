package replay

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Timeline counts decisions in columns of equal width, without gaps.
type Timeline struct {
	Start       time.Time `json:"start"` // of the first column, in UTC
	WidthMillis int64     `json:"widthMillis"`
	Columns     []Column  `json:"columns"`
}

// Column is one step of a Timeline.
type Column struct {
	Admitted uint64 `json:"admitted"`
	Denied   uint64 `json:"denied"`
}

// columnsMax is the largest number of columns in a timeline: they fit into a terminal line.
const columnsMax = 64

// widths are the allowed lengths of a column, each a multiple of the one before it, so that columns can be joined.
// After the last one they double.
var widths = []limit.Span{
	span(time.Millisecond), span(5 * time.Millisecond), span(10 * time.Millisecond), span(50 * time.Millisecond),
	span(100 * time.Millisecond), span(500 * time.Millisecond),
	span(time.Second), span(5 * time.Second), span(10 * time.Second), span(30 * time.Second),
	span(time.Minute), span(5 * time.Minute), span(10 * time.Minute), span(30 * time.Minute),
	span(time.Hour), span(3 * time.Hour), span(6 * time.Hour), span(12 * time.Hour), span(24 * time.Hour),
	span(7 * 24 * time.Hour),
}

func span(d time.Duration) limit.Span { return limit.Span(d.Microseconds()) }

// timeline counts decisions over a time with an end that is not known yet: when it gets too long, its columns are
// joined.
type timeline struct {
	start   limit.Time // of the first column, a multiple of width
	width   limit.Span
	columns []Column
}

// add counts a decision. now must not be before that of the decision before.
func (t *timeline) add(now limit.Time, admitted bool) {
	if t.columns == nil {
		t.width = widths[0]
		t.start = floor(now, t.width)
	}
	for t.column(now) >= columnsMax {
		t.widen()
	}
	for len(t.columns) <= t.column(now) {
		t.columns = append(t.columns, Column{})
	}
	if c := &t.columns[t.column(now)]; admitted {
		c.Admitted++
	} else {
		c.Denied++
	}
}

// column is the place of an instant, which may be beyond the columns that there are.
func (t *timeline) column(at limit.Time) int {
	return int(min(math.MaxInt32, (at-t.start)/limit.Time(t.width)))
}

func (t *timeline) widen() {
	wider := timeline{width: t.width * 2}
	for _, w := range widths {
		if w > t.width {
			wider.width = w
			break
		}
	}
	wider.start = floor(t.start, wider.width)
	wider.columns = make([]Column, 1, columnsMax)
	for i, c := range t.columns {
		into := wider.column(t.start + limit.Time(i)*limit.Time(t.width))
		for len(wider.columns) <= into {
			wider.columns = append(wider.columns, Column{})
		}
		wider.columns[into].Admitted += c.Admitted
		wider.columns[into].Denied += c.Denied
	}
	*t = wider
}

func floor(at limit.Time, width limit.Span) limit.Time { return at - at%limit.Time(width) }

func (t *timeline) report() *Timeline {
	if t.columns == nil {
		return nil
	}
	return &Timeline{Start: clock(t.start), WidthMillis: int64(t.width / 1000), Columns: t.columns}
}

// plot draws two rows of bars on one scale, so that their heights can be compared.
func (t *Timeline) plot(text *bytes.Buffer) {
	var admitted, denied []uint64
	for _, c := range t.Columns {
		admitted = append(admitted, c.Admitted)
		denied = append(denied, c.Denied)
	}
	mostAdmitted, mostDenied := slices.Max(admitted), slices.Max(denied)
	most := max(mostAdmitted, mostDenied)
	fmt.Fprintf(text, "  admitted │%s│ at most %d\n", bars(admitted, most), mostAdmitted)
	fmt.Fprintf(text, "  denied   │%s│ at most %d\n", bars(denied, most), mostDenied)
	width := time.Duration(t.WidthMillis) * time.Millisecond
	end := t.Start.Add(width * time.Duration(len(t.Columns)))
	fmt.Fprintf(text, "           └%s┘ in %s\n", strings.Repeat("─", len(t.Columns)), policy.SpanText(span(width)))
	fmt.Fprintf(text, "           %s to %s UTC\n", t.Start.Format(time.DateTime), end.Format(time.DateTime))
}

// bars draws one column for each count. The least count above 0 is still visible.
func bars(counts []uint64, most uint64) string {
	heights := []rune(" ▁▂▃▄▅▆▇█")
	var row strings.Builder
	for _, n := range counts {
		height := 0
		if n > 0 {
			height = max(1, int(float64(n)/float64(most)*8+0.5))
		}
		row.WriteRune(heights[height])
	}
	return row.String()
}
