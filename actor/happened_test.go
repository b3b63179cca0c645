package actor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stint-io/stint/shard"
)

// A watched batch reports its changes once it is installed; a batch that failed, or may have, reports nothing.
func TestWhatIsNotCommittedIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		var watched atomic.Bool
		var mu sync.Mutex // guards told
		var told []string
		a := startActor(t, r, 100, func(c *Config) {
			c.Watched = watched.Load
			c.Observer.Happened = func(all []shard.Happening) {
				mu.Lock()
				defer mu.Unlock()
				for _, h := range all {
					told = append(told, fmt.Sprint(h.Key, " ", h.Change.Deed, " ", h.Change.Note))
				}
			}
		})
		reset := func(note string) shard.Request {
			return shard.Request{Op: shard.Reset, Namespace: "default", Entries: take("").Entries,
				Adjustment: &shard.Adjustment{Actor: "jo", Note: note}}
		}
		mustSay(t, one(t, a, take("")), "allowed")
		mustSay(t, one(t, a, reset("unwatched")), "allowed")
		watched.Store(true)
		release := r.holdWaits(t)
		first := submit(t, a, reset("first"))
		synctest.Wait()
		mu.Lock()
		if len(told) > 0 {
			t.Errorf("told before it is installed: %q", told)
		}
		mu.Unlock()
		release()
		mustSay(t, <-first, "allowed")
		r.next(fakeFate{lost: true, err: errNotOwner})
		mustSay(t, one(t, a, reset("lost")), notOwner)
		mustSay(t, one(t, a, reset("last")), "allowed")
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		key := take("").Entries[0].Key
		if want := []string{key + " reset first", key + " reset last"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
