package actor

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeReplica is a single replica with a disk that a test controls. Entries are installed when they are proposed; the
// proposer learns of it when the test allows it.
type fakeReplica struct {
	leading atomic.Bool

	guard sync.Mutex
	state *shard.State
	index uint64
	log   [][]byte
	fates []fakeFate    // of the next proposals; all others are installed
	hold  chan struct{} // waits end when it is closed; nil: at once
	late  [][]byte      // other owners' entries that enter the log before the next proposal
}

// fakeFate is the outcome of one proposal.
type fakeFate struct {
	lost bool // not in the log
	err  error
}

func newFakeReplica() *fakeReplica {
	r := &fakeReplica{state: shard.NewState(0), index: 10}
	r.leading.Store(true)
	return r
}

func (r *fakeReplica) Leading() bool { return r.leading.Load() }

func (r *fakeReplica) Propose(payload []byte) func() (shard.Outcome, error) {
	r.guard.Lock()
	defer r.guard.Unlock()
	var fate fakeFate
	if len(r.fates) > 0 {
		fate, r.fates = r.fates[0], r.fates[1:]
	}
	for _, payload := range r.late {
		r.install(payload)
	}
	r.late = nil
	var outcome shard.Outcome
	if !fate.lost {
		outcome = r.install(payload)
	}
	hold := r.hold
	return func() (shard.Outcome, error) {
		if hold != nil {
			<-hold
		}
		return outcome, fate.err
	}
}

func (r *fakeReplica) install(payload []byte) shard.Outcome {
	r.index++
	r.log = append(r.log, slices.Clone(payload))
	outcome, err := r.state.Install(payload, r.index, 1)
	if err != nil {
		panic(err)
	}
	return outcome
}

func (r *fakeReplica) View(read func(*shard.State)) {
	r.guard.Lock()
	defer r.guard.Unlock()
	read(r.state)
}

// next sets the outcomes of the next proposals.
func (r *fakeReplica) next(fates ...fakeFate) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.fates = fates
}

// neverOpens loses every proposal until next says otherwise.
func (r *fakeReplica) neverOpens() {
	r.next(slices.Repeat([]fakeFate{{lost: true, err: noOutcome}}, 1000)...)
}

// adopt puts a revision into the log as if an earlier owner had adopted it.
func (r *fakeReplica) adopt(revision policy.Revision) {
	r.guard.Lock()
	defer r.guard.Unlock()
	now := limit.Time(time.Now().UnixMicro())
	epoch := r.install(shard.EncodeEpochOpen(0, now, shard.LevelNewest)).Epoch
	at := shard.Stamp{Position: shard.Position{Epoch: epoch, Seq: 1}, Now: now}
	r.install(shard.EncodeBatch(at, shard.Adopt(r.state, nil, revision, at)))
}

// holdWaits blocks the waits of the following proposals until the returned function is called or the test ends.
func (r *fakeReplica) holdWaits(t *testing.T) (release func()) {
	r.guard.Lock()
	defer r.guard.Unlock()
	hold := make(chan struct{})
	r.hold = hold
	release = sync.OnceFunc(func() {
		r.guard.Lock()
		defer r.guard.Unlock()
		r.hold = nil
		close(hold)
	})
	t.Cleanup(release)
	return release
}

// openForeign appends an EpochOpen as if another node took the shard over.
func (r *fakeReplica) openForeign() (epoch uint64) {
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.install(shard.EncodeEpochOpen(0, r.state.Time(), shard.LevelNewest)).Epoch
}

// kinds counts the entries in the log by their kind, which is the second byte of each; adoptions do not count as
// batches here.
func (r *fakeReplica) kinds() (opens, batches, sums int) {
	r.guard.Lock()
	defer r.guard.Unlock()
	for _, e := range r.log {
		switch e[1] {
		case 1:
			opens++
		case 2:
			if !bytes.Contains(e, []byte("policies:")) {
				batches++
			}
		default:
			sums++
		}
	}
	return opens, batches, sums
}

// lifetime is a set of one policy that admits quota units, ever.
func lifetime(quota uint64) *policy.Set {
	return policy.NewSet([]*policy.Policy{{Name: "p", Retention: policy.DefaultRetention,
		Limits: []policy.Limit{{Name: "all", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: quota}}}}})
}

// revision is the Config.Policies of a node that knows one version, which admits quota units, ever.
func revision(version, quota uint64) func() *policy.Revision {
	r := &policy.Revision{Version: version, Text: lifetimeText(quota), Set: lifetime(quota)}
	return func() *policy.Revision { return r }
}

// lifetimeText is the file of lifetime.
func lifetimeText(quota uint64) []byte {
	return fmt.Appendf(nil, "policies: {p: {limits: [{name: all, quota: %d, lifetime: {}}]}}\n", quota)
}

func startActor(t *testing.T, r Replica, quota uint64, change func(*Config)) *Actor {
	t.Helper()
	config := Config{Policies: revision(1, quota)}
	if change != nil {
		change(&config)
	}
	a := Start(0, r, config)
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}

func take(id string) shard.Request {
	return shard.Request{Op: shard.Check, Namespace: "default", ID: id,
		Entries: []shard.Entry{{Policy: "p", Key: "k", Cost: 1}}}
}

// submit submits one request in a goroutine; the channel delivers its result. Ten minutes stand for forever.
func submit(t *testing.T, a *Actor, r shard.Request) <-chan shard.Result {
	result := make(chan shard.Result, 1)
	go func() { result <- one(t, a, r) }()
	return result
}

// one submits one request and waits for its result.
func one(t *testing.T, a *Actor, r shard.Request) shard.Result {
	return within(t, a, 10*time.Minute, r)
}

func within(t *testing.T, a *Actor, patience time.Duration, r shard.Request) shard.Result {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return a.Submit(ctx, []shard.Request{r})[0]
}

// says describes a result in one word: allowed, denied, or the code and fate of its error.
func says(r shard.Result) string {
	switch {
	case r.Err != nil && r.Err.MaybeApplied():
		return "unknown"
	case r.Err != nil:
		return fmt.Sprint("not applied: ", r.Err.Code)
	case r.Decision.Allowed:
		return "allowed"
	}
	return "denied"
}

func mustSay(t *testing.T, r shard.Result, want string) {
	t.Helper()
	if got := says(r); got != want {
		t.Fatalf("%s, must be %s: %+v", got, want, r)
	}
}

func mustWait(t *testing.T, result <-chan shard.Result, why string) {
	t.Helper()
	select {
	case r := <-result:
		t.Fatalf("answered %+v, although %s", r, why)
	default:
	}
}
