package actor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// The requests of callers that give up stay in the mailbox: the load stays bounded, and requests that do not fit are
// refused.
func TestCallersThatGiveUpStayInTheRoom(t *testing.T) {
	for name, bound := range map[string]func(*Config){
		"by number": func(c *Config) { c.MaxQueued = 10 },
		"by bytes":  func(c *Config) { c.MaxQueuedBytes = 10 * int(weigh([]shard.Request{take("")}).bytes) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeReplica()
				a := startActor(t, r, 1000, bound)
				synctest.Wait()
				release := r.holdWaits(t)
				proposed := submit(t, a, take(""))
				synctest.Wait()
				refused := 0
				for range 3000 {
					if says(within(t, a, time.Microsecond, take(""))) == overload {
						refused++
					}
				}
				synctest.Wait()
				if held := a.seq.queue.len() + len(a.intake.calls); refused != 3000-9 || held != 9 {
					t.Fatalf("%d of 3,000 were refused, %d are held behind the one under way", refused, held)
				}
				release()
				mustSay(t, <-proposed, "allowed")
				mustSay(t, one(t, a, take("")), "allowed")
				synctest.Wait()
				if held := a.admission.held(); held != (load{}) {
					t.Fatalf("at rest, room is taken by %+v", held)
				}
			})
		})
	}
}

// A call gives its room back, in whatever way it ends.
func TestRoomIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		r.leading.Store(false)
		a := startActor(t, r, 2, nil)
		empty := func(after string) {
			t.Helper()
			synctest.Wait()
			if held := a.admission.held(); held != (load{}) {
				t.Fatalf("%s: room is taken by %+v", after, held)
			}
		}
		mustSay(t, one(t, a, take("")), notOwner)
		empty("failed in the queue")
		r.neverOpens()
		r.leading.Store(true)
		mustSay(t, within(t, a, time.Millisecond, take("")), unavailable)
		r.leading.Store(false)
		time.Sleep(time.Second)
		empty("abandoned in the queue")
		r.next()
		r.leading.Store(true)
		mustSay(t, one(t, a, take("")), "allowed")
		empty("answered")
		r.next(fakeFate{err: noOutcome})
		mustSay(t, one(t, a, take("")), "unknown")
		empty("failed under way")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 100 { // some of them reach the mailbox
			mustSay(t, a.Submit(gone, []shard.Request{take("")})[0], unavailable)
		}
		time.Sleep(time.Second) // the epoch ended with the unknown outcome: the next one skips them
		empty("given up at the door")
		large := take("")
		large.Entries[0].Key = strings.Repeat("k", 64<<20)
		mustSay(t, one(t, a, large), overload)
		empty("too large")
	})
}

// At the memory cap a new key is refused and a known one is decided. The observer gets reports as long as it lasts.
func TestFullShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, r := 0, newFakeReplica()
		r.adopt(policy.Revision{Version: 1, Text: lifetimeText(1000)})
		a := startActor(t, r, 1000, func(c *Config) {
			most := (r.state.Bytes()+1)*8/7 + 1 // full is an eighth less
			c.Room = func() shard.Room { return shard.Room{Used: shard.UseOf(r.state.Bytes(), most)} }
			c.Observer.Full = func() { told++ }
		})
		mustSay(t, one(t, a, take("")), "allowed")
		time.Sleep(time.Minute)
		synctest.Wait()
		if told != 0 {
			t.Fatalf("told %d times before a request was refused", told)
		}
		stranger := take("")
		stranger.Entries[0].Key = "stranger"
		for range 34 {
			if result := one(t, a, stranger); result.Err == nil || result.Err.Code != shard.MemoryFull {
				t.Fatalf("a new key at the cap: %+v", result)
			}
			mustSay(t, one(t, a, take("")), "allowed")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if told != 4 {
			t.Fatalf("told %d times in 34 s, must be 4", told)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if told != 4 {
			t.Fatalf("told %d times more after the last refusal", told-4)
		}
	})
}

// Requests that wait in vain for an epoch are refused with the reason why the newest EpochOpen failed, and not as if
// another node led.
func TestRefusedOpeningIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lowDisk := &shard.Error{Code: shard.Unavailable, Message: "the disk is full: make room"}
		r := newFakeReplica()
		r.next(slices.Repeat([]fakeFate{{lost: true, err: lowDisk}}, 1000)...)
		a := startActor(t, r, 5, nil)
		if result := one(t, a, take("")); result.Err != lowDisk {
			t.Fatalf("while EpochOpens are refused: %+v", result)
		}
		r.next(slices.Repeat([]fakeFate{{lost: true, err: noOutcome}}, 1000)...)
		time.Sleep(time.Second)
		if result := one(t, a, take("")); result.Err != errNoEpoch {
			t.Fatalf("while nobody knows what becomes of EpochOpens: %+v", result)
		}
		r.next(slices.Repeat([]fakeFate{{lost: true, err: lowDisk}}, 1000)...)
		time.Sleep(time.Second)
		r.leading.Store(false)
		mustSay(t, one(t, a, take("")), notOwner)
		r.next()
		r.leading.Store(true)
		mustSay(t, one(t, a, take("")), "allowed")
	})
}

// Batches and commits are counted when they are installed, and the epoch is 0 while none is open.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches, commits int
		var epochs []uint64
		r := newFakeReplica()
		a := startActor(t, r, 5, func(c *Config) {
			c.Observer.Batch = func(int, int, int) { batches++ }
			c.Observer.Commit = func(time.Duration) { commits++ }
			c.Observer.Epoch = func(epoch uint64) { epochs = append(epochs, epoch) }
		})
		mustSay(t, one(t, a, take("")), "allowed")
		r.next(fakeFate{lost: true, err: errNotOwner})
		mustSay(t, one(t, a, take("")), notOwner)
		r.next(fakeFate{err: noOutcome})
		mustSay(t, one(t, a, take("")), "allowed") // the unknown outcome is that of the opening
		mustSay(t, one(t, a, take("")), "allowed")
		a.Close(t.Context())
		if batches != 3 || commits != 4 { // one commit is an adoption
			t.Fatalf("told of %d batches and %d commits, must be 3 and 4", batches, commits)
		}
		if len(epochs) != 4 || epochs[0] == 0 || epochs[1] != 0 || epochs[2] <= epochs[0] || epochs[3] != 0 {
			t.Fatalf("told of the epochs %v, must be one, 0, a newer one, 0", epochs)
		}
	})
}
