package actor

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// knowledge is the Config.Policies of a test.
type knowledge struct {
	atomic.Pointer[policy.Revision]
}

func (k *knowledge) set(version, quota uint64) { k.Store(revision(version, quota)()) }

// adopted returns the version that the replica's log holds.
func (r *fakeReplica) adopted() (version uint64) {
	r.View(func(state *shard.State) { version, _ = adoptedBy(state) })
	return version
}

// Newer policies are adopted unasked, by an entry of their own. Later decisions follow them, also for requests that
// gathered before.
func TestNewerPoliciesAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, known := newFakeReplica(), &knowledge{}
		known.set(4, 1)
		a := startActor(t, r, 0, func(c *Config) { c.Policies = known.Load })
		synctest.Wait()
		mustSay(t, one(t, a, take("")), "allowed")
		mustSay(t, one(t, a, take("")), "denied")
		release := r.holdWaits(t)
		proposed := submit(t, a, take(""))
		synctest.Wait()
		known.set(6, 2)
		gathered := submit(t, a, take(""))
		synctest.Wait()
		release()
		mustSay(t, <-proposed, "denied")
		mustSay(t, <-gathered, "allowed")
		mustSay(t, one(t, a, take("")), "denied")
		known.set(5, 100)
		time.Sleep(time.Second)
		mustSay(t, one(t, a, take("")), "denied")
		known.set(7, 3)
		time.Sleep(time.Second)
		synctest.Wait()
		if r.adopted() != 7 {
			t.Fatalf("the log has adopted %d", r.adopted())
		}
		mustSay(t, one(t, a, take("")), "allowed")
	})
}

// A node that knows older policies than the log, or none, follows the log's.
func TestTheLogsPoliciesHold(t *testing.T) {
	for name, known := range map[string]func() *policy.Revision{
		"older":                  revision(3, 100),
		"none":                   func() *policy.Revision { return nil },
		"another text, as if":    revision(5, 100),
		"no version, as if none": func() *policy.Revision { return &policy.Revision{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFakeReplica()
				r.adopt(policy.Revision{Version: 5, Text: lifetimeText(1)})
				a := startActor(t, r, 0, func(c *Config) { c.Policies = known })
				mustSay(t, one(t, a, take("")), "allowed")
				mustSay(t, one(t, a, take("")), "denied")
				if opens, batches, _ := r.kinds(); opens != 2 || batches != 2 || r.adopted() != 5 {
					t.Fatalf("%d epochs, %d batches, version %d is adopted", opens, batches, r.adopted())
				}
			})
		})
	}
}

// Without any policies requests wait as they do without an epoch.
func TestNoPoliciesYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, known := newFakeReplica(), &knowledge{}
		a := startActor(t, r, 0, func(c *Config) { c.Policies = known.Load })
		began := time.Now()
		if result := one(t, a, take("")); result.Err != errNoPolicies || time.Since(began) < time.Second {
			t.Fatalf("after %v: %+v", time.Since(began), result)
		}
		if opens, _, _ := r.kinds(); opens != 0 || a.Open() || a.Epoch() != 0 {
			t.Fatalf("%d epochs, open is %v", opens, a.Open())
		}
		known.set(1, 1)
		time.Sleep(time.Second)
		mustSay(t, one(t, a, take("")), "allowed")
		if a.Epoch() != 11 { // the first index of the log
			t.Fatalf("epoch %d is open", a.Epoch())
		}
	})
}

// Policies that a newer version of the program adopted and that this one cannot read are not replaced by others.
// Nothing is decided here until there are newer ones that it can read.
func TestUnreadablePolicies(t *testing.T) {
	unreadable := policy.Revision{Version: 5,
		Text: []byte("policies: {p: {limits: [{name: all, quota: 9, magic: {}}]}}")}
	for _, late := range []bool{false, true} { // late: the text is in the log, and not yet in this replica
		t.Run(fmt.Sprint("late is ", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, known := newFakeReplica(), &knowledge{}
				known.set(4, 1)
				told := 0
				if r.adopt(unreadable); late {
					r.late = r.log
					r.state, r.log = shard.NewState(0), nil
					r.index = 10
				}
				a := startActor(t, r, 0, func(c *Config) {
					c.Policies = known.Load
					c.Observer.Unreadable = func(version uint64, err error) {
						if told++; version != 5 || err == nil {
							t.Errorf("told of version %d: %v", version, err)
						}
					}
				})
				if result := one(t, a, take("")); result.Err != errUnreadable {
					t.Fatalf("%+v", result)
				}
				time.Sleep(15 * time.Second)
				synctest.Wait()
				opens, batches, _ := r.kinds()
				if late {
					opens-- // as it could not know
				}
				if opens != 1 || batches != 0 || told != 2 || a.Open() {
					t.Fatalf("%d epochs, %d batches, told %d times, open is %v", opens, batches, told, a.Open())
				}
				known.set(6, 1)
				time.Sleep(time.Second)
				mustSay(t, one(t, a, take("")), "allowed")
				mustSay(t, one(t, a, take("")), "denied")
			})
		})
	}
}

// The system shard's requests need no policies: they are decided at once, and nothing is adopted.
func TestShardWithoutPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeReplica()
		a := startActor(t, r, 0, func(c *Config) { c.Policies = nil })
		mustSay(t, one(t, a, take("")), fmt.Sprint("not applied: ", shard.PolicyNotFound))
		if opens, batches, _ := r.kinds(); opens != 1 || batches != 1 || r.adopted() != 0 {
			t.Fatalf("%d epochs, %d batches, version %d is adopted", opens, batches, r.adopted())
		}
	})
}
