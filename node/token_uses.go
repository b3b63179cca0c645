package node

import (
	"maps"
	"time"
)

// recordTokenUses is the name of the record of when tokens were last used, by name, in Unix microseconds.
const recordTokenUses = "token-uses"

// usesKeptEvery is how often last uses are written down, if there are new ones. A node writes them when it stops too,
// so only a crash loses some.
const usesKeptEvery = 5 * time.Minute

// lastUses is when tokens were last used, besides what this process has seen itself (tokens.uses).
type lastUses struct {
	told    map[string]int64 // before this process started, and on other nodes, as those said; in Unix microseconds
	written map[string]int64 // as on disk
	looked  time.Time        // when they were last compared
}

// readUses reads what an earlier process has written down. The caller has the turn.
func (t *tokens) readUses() error {
	_, err := t.dir.read(recordTokenUses, &t.written)
	t.told = maps.Clone(t.written)
	return err
}

// keepUses writes last uses down, if there are new ones, and the last look for them is as long ago as every says. It
// does so only where the tokens are known: else it would forget what is written.
func (t *tokens) keepUses(every time.Duration) error {
	defer t.learning.take()()
	now := t.now()
	if t.dir.stores == nil || !t.guard.Set().Known || now.Sub(t.looked) < every {
		return nil
	}
	t.looked = now
	uses := t.latest()
	if maps.Equal(uses, t.written) {
		return nil
	}
	t.written = uses
	return t.dir.keep(recordTokenUses, uses)
}

// learnUses remembers when another node says that tokens were last used, as far as it knows.
func (t *tokens) learnUses(uses map[string]int64) {
	defer t.learning.take()()
	if t.told == nil {
		t.told = make(map[string]int64, len(uses))
	}
	for name, at := range uses {
		t.told[name] = max(t.told[name], at)
	}
}

// usesKnown is when each token was last used on any node that has said so, in Unix microseconds.
func (t *tokens) usesKnown() map[string]int64 {
	defer t.learning.take()()
	return t.latest()
}

// latest is usesKnown for a caller that has the turn. It forgets tokens that there are no longer: another one may get
// the name.
func (t *tokens) latest() map[string]int64 {
	set := t.guard.Set()
	seen, latest := set.LastUses(), make(map[string]int64)
	for _, r := range set.Records() {
		at := t.told[r.Name]
		if here, ok := seen[r.Name]; ok {
			at = max(at, here.UnixMicro())
		}
		if at >= r.Created && at > 0 {
			latest[r.Name] = at
		}
	}
	return latest
}

// lastUsed is usesKnown as instants.
func (t *tokens) lastUsed() map[string]time.Time {
	times := make(map[string]time.Time)
	for name, at := range t.usesKnown() {
		times[name] = time.UnixMicro(at)
	}
	return times
}
