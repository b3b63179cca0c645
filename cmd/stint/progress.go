package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// tell shows progress: as one changing line on a terminal, else as one line per change. "" erases the line on a
// terminal, and writes nothing elsewhere.
func (s streams) tell(progress string) {
	if s.live() {
		overwrite(s.err, progress)
	} else if progress != "" {
		fmt.Fprintln(s.err, progress)
	}
}

// overwrite replaces the line of progress on the terminal.
func overwrite(w io.Writer, line string) { fmt.Fprintf(raw(w), "\r\x1b[K%s", escaped(line, "")) }

// statusLine shows the progress of a long command on stderr: one changing line on a terminal, else a line now and then.
type statusLine struct {
	streams

	mu   sync.Mutex // guards last, and keeps the lines of several goroutines apart
	last time.Time  // when show last wrote; at first the start, so that a short command leaves no line in a log
}

// plainEvery is the interval between two lines of progress in a log.
const plainEvery = 5 * time.Second

func newStatusLine(s streams) *statusLine { return &statusLine{streams: s, last: time.Now()} }

// show replaces the line.
func (l *statusLine) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live() || time.Since(l.last) >= plainEvery {
		l.last = time.Now()
		l.tell(text)
	}
}

// say writes a line that stays.
func (l *statusLine) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell("")
	fmt.Fprintln(l.err, text)
}

// end erases the line.
func (l *statusLine) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell("")
}

// barWidth is the number of characters for a whole quota.
const barWidth = 20

// bar shows used units as a share of a quota; "" if the quota is 0.
func bar(used, quota uint64) string {
	if quota == 0 {
		return ""
	}
	// Rounded up, so that a single unit shows. The ratio is only for the eye, so a float is good enough.
	return progressBar(float64(used)/float64(quota) + 0.999/barWidth)
}

// progressBar shows a share, where 1 is all. One that is not known is below 0, and shows as an empty bar.
func progressBar(share float64) string {
	filled := min(max(int(share*barWidth), 0), barWidth)
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", barWidth-filled) + "]"
}
