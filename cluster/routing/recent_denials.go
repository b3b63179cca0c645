package routing

import (
	"strings"
	"sync"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const (
	// lookFirstMost bounds how long operations on a key look first after it denied, even if the denial gave a longer
	// wait. After a refusal it is exactly that time.
	lookFirstMost = time.Minute
	// recentDenialsMost bounds the number of remembered keys.
	recentDenialsMost = 4096
)

// recentDenials remembers keys that have denied an operation, or were refused, while other keys of it were charged. The
// next operation on such a key looks first. Other operations do not look, and are not slowed down. Any number of
// goroutines may use it.
type recentDenials struct {
	mu   sync.Mutex
	keys map[counterName]recentDenial
}

// recentDenial is why an operation on a key looks first, and until when.
type recentDenial struct {
	of    keyHistory
	until time.Time
}

// keyHistory is the recent history of a key.
type keyHistory uint8

const (
	trusted keyHistory = iota
	refused            // a shard has refused a key because it does not exist
	denied             // a key has denied
)

// counterName identifies the counter of one policy for one key.
type counterName struct{ namespace, policy, key string }

// worstOf returns the worst recent history of an operation's keys.
func (w *recentDenials) worstOf(o *operation) (worst keyHistory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) == 0 {
		return trusted
	}
	now := time.Now()
	for i := range o.whole.Entries {
		e := &o.whole.Entries[i]
		if k := w.keys[counterName{o.whole.Namespace, e.Policy, e.Key}]; now.Before(k.until) {
			worst = max(worst, k.of)
		}
	}
	if o.whole.Op == shard.Count {
		return min(worst, refused) // it is never denied
	}
	return worst
}

// learn records the keys that denied, for the wait in their denials.
func (w *recentDenials) learn(o *operation, d *shard.Decision) {
	if d.Allowed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range d.Limits {
		s := &d.Limits[i]
		if s.Shadow || s.Allowed && !s.Blocked {
			continue
		}
		wait := lookFirstMost
		if s.RetryAfter > 0 {
			wait = min(wait, time.Duration(s.RetryAfter)*time.Microsecond)
		}
		w.note(o, s.Policy, s.Key, denied, wait)
	}
}

// learnRefused records the keys that a shard has refused because a policy, key or tier does not exist.
func (w *recentDenials) learnRefused(o *operation, at slot.ID, err *shard.Error) {
	if err.Code != shard.PolicyNotFound && err.Code != shard.KeyNotFound && err.Code != shard.Invalid {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range o.entriesAt(at) {
		w.note(o, e.Policy, e.Key, refused, lookFirstMost)
	}
}

// note remembers one key. The caller holds the mutex. The texts are cloned, as they may be parts of a larger message.
func (w *recentDenials) note(o *operation, policy, key string, of keyHistory, wait time.Duration) {
	if len(w.keys) >= recentDenialsMost || w.keys == nil {
		w.keys = make(map[counterName]recentDenial) // start over: a key that denies again is learned again
	}
	w.keys[counterName{strings.Clone(o.whole.Namespace), strings.Clone(policy), strings.Clone(key)}] = recentDenial{of,
		time.Now().Add(wait)}
}
