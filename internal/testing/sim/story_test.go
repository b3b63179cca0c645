package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/testing/bubble"
)

// story is the history of a world in virtual time: its faults, and the logs of its nodes. It is formatted only on
// request.
type story struct {
	mu    sync.Mutex
	began time.Time
	lines []line
}

type line struct {
	at     time.Time
	who    string
	text   string
	record *slog.Record
	attrs  []slog.Attr
}

// storyMost is the number of lines that are kept: the newest ones.
const storyMost = 6000

func (s *story) add(l line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.at = time.Now()
	if len(s.lines) >= storyMost {
		s.lines = slices.Delete(s.lines, 0, storyMost/4)
	}
	s.lines = append(s.lines, l)
}

func (s *story) tell(who, format string, args ...any) {
	s.add(line{who: who, text: fmt.Sprintf(format, args...)})
}

func (s *story) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, l := range s.lines {
		fmt.Fprintf(&b, "%9.3f %-5s %s", l.at.Sub(s.began).Seconds(), l.who, l.text)
		if l.record != nil {
			fmt.Fprintf(&b, "%s %s", l.record.Level, l.record.Message)
			for _, a := range l.attrs {
				fmt.Fprintf(&b, " %s", a)
			}
			l.record.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s", a); return true })
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// told are log lines that are counted as events of a world.
var told = map[string]bool{"raft: Installed remote snapshot": true, "raft: snapshot complete up to": true,
	slotMoved: true}

// scribe is the slog.Handler of one node.
type scribe struct {
	world *world
	clock *bubble.Clock
	story *story
	who   string
	level slog.Level
	attrs []slog.Attr
}

// Enabled implements slog.Handler. A Raft member of a paused process blocks here.
func (s scribe) Enabled(context.Context, slog.Level) bool {
	if slices.ContainsFunc(s.attrs, func(a slog.Attr) bool { return a.Key == "shard" }) {
		s.clock.Stand()
	}
	return true
}

func (s scribe) Handle(_ context.Context, r slog.Record) error {
	if told[r.Message] {
		s.world.tally.note(r.Message)
	}
	if r.Level < s.level {
		return nil
	}
	r = r.Clone()
	s.story.add(line{who: s.who, record: &r, attrs: s.attrs})
	return nil
}

func (s scribe) WithAttrs(attrs []slog.Attr) slog.Handler {
	s.attrs = append(slices.Clone(s.attrs), attrs...)
	return s
}

func (s scribe) WithGroup(string) slog.Handler { return s }
