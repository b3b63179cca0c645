//go:build chaos

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/limit"
)

const restoreSecond = limit.Span(1_000_000)

// restoreLimits are short enough to roll while a test runs, each in a policy of its name.
var restoreLimits = map[string]struct {
	yaml string
	limit.Limit
}{
	"fixed": {"fixed_window: {period: 4s}",
		limit.Limit{Algorithm: limit.FixedWindow, Quota: 20, Period: 4 * restoreSecond}},
	"first-hit": {"fixed_window: {period: 3s, anchor: first_hit}",
		limit.Limit{Algorithm: limit.FixedWindowFirstHit, Quota: 20, Period: 3 * restoreSecond}},
	"weighted": {"sliding_window: {period: 3s}",
		limit.Limit{Algorithm: limit.SlidingWindow, Quota: 20, Period: 3 * restoreSecond}},
	"buckets": {"sliding_window: {period: 3s, bucket: 100ms}",
		limit.Limit{Algorithm: limit.SlidingBuckets, Quota: 20, Period: 3 * restoreSecond, Bucket: restoreSecond / 10}},
	"log": {"sliding_log: {period: 3s}",
		limit.Limit{Algorithm: limit.SlidingLog, Quota: 20, Period: 3 * restoreSecond}},
	"bucket": {"token_bucket: {refill: 10, per: 3s}",
		limit.Limit{Algorithm: limit.TokenBucket, Quota: 20, Period: 3 * restoreSecond, Count: 10, Initial: 20}},
	"gcra": {"gcra: {rate: 10, per: 3s}",
		limit.Limit{Algorithm: limit.GCRA, Quota: 20, Period: 3 * restoreSecond, Count: 10}},
}

// admissions are the instants at which requests were admitted, by policy and key, over all generations of a cluster.
type admissions struct {
	mu  sync.Mutex
	all map[[2]string][]limit.Time
}

// ask asks once; what is not answered may have been counted, which only leaves room unused.
func (a *admissions) ask(address, policy, key string) (answered, allowed bool) {
	body := fmt.Sprintf(`{"entries":[{"policy":%q,"key":%q}]}`, policy, key)
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Post("http://"+address+"/stint.v1.LimitService/Check", "application/json",
		strings.NewReader(body))
	if err != nil {
		return false, false
	}
	defer response.Body.Close()
	var reply struct {
		Decision *struct {
			Allowed   bool
			DecidedAt time.Time
		}
	}
	if json.NewDecoder(response.Body).Decode(&reply) != nil || reply.Decision == nil {
		return false, false
	}
	if reply.Decision.Allowed {
		a.mu.Lock()
		defer a.mu.Unlock()
		name := [2]string{policy, key}
		a.all[name] = append(a.all[name], limit.Time(reply.Decision.DecidedAt.UnixMicro()))
	}
	return true, reply.Decision.Allowed
}

// judge adds everything up anew.
func (a *admissions) judge(t *testing.T) {
	t.Helper()
	for name, instants := range a.all {
		slices.Sort(instants)
		m := model.New(restoreLimits[name[0]].Limit)
		for i, at := range instants {
			if !m.Admits(1, at) {
				t.Errorf("%s on %s: admission %d of %d, at %d, is one too many", name[0], name[1], i, len(instants), at)
				break
			}
			m.Add(1, at)
		}
	}
}

// crowdUntilAllAdmit asks a restored cluster from many sides until every limit admits again, and judges what was
// admitted.
func (a *admissions) crowdUntilAllAdmit(t *testing.T, address string) {
	t.Helper()
	end := make(chan struct{})
	done := a.crowd(address, end)
	await.Until(t, "every limit admits again", func() bool {
		for name := range restoreLimits {
			if _, allowed := a.ask(address, name, "again"); !allowed {
				return false
			}
		}
		return true
	})
	close(end)
	done.Wait()
	a.judge(t)
}

// crowd asks for everything until end is closed.
func (a *admissions) crowd(address string, end <-chan struct{}) (done *sync.WaitGroup) {
	done = new(sync.WaitGroup)
	policies := slices.Sorted(maps.Keys(restoreLimits))
	for worker := range 8 {
		done.Go(func() {
			for n := worker; ; n++ {
				select {
				case <-end:
					return
				default:
					a.ask(address, policies[n%len(policies)], fmt.Sprint("key-", n/len(policies)%4))
				}
			}
		})
	}
	return done
}

// TestNoLimitIsExceededAcrossRestores: a cluster is backed up under load, goes on, is killed, and is restored, by a
// process that is killed at each step until it succeeds. Everything that was ever admitted, in the history that was
// lost too, stays within every limit. Twice, so that a restored cluster is backed up and restored again.
func TestNoLimitIsExceededAcrossRestores(t *testing.T) {
	var text strings.Builder
	text.WriteString("policies:\n")
	for name, l := range restoreLimits {
		fmt.Fprintf(&text, "  %s: {limits: [{name: l, quota: %d, %s}]}\n", name, l.Quota, l.yaml)
	}
	s := newServer(t, text.String())
	random := rand.New(rand.NewPCG(seed(t), 2))
	a := &admissions{all: map[[2]string][]limit.Time{}}
	for round := range 2 {
		end := make(chan struct{})
		done := a.crowd(s.Addr(0), end)
		// the random part is the moment of the backup
		pause(t.Context(), time.Duration(1000+random.IntN(2000))*time.Millisecond)
		file := filepath.Join(t.TempDir(), "stint.backup")
		if err := stint(t.Context(), "backup", file, "--addr", "http://"+s.Addr(0)); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), time.Duration(random.IntN(3000))*time.Millisecond) // what is lost
		if err := s.Kill(0); err != nil {
			t.Fatal(err)
		}
		close(end)
		done.Wait()
		if err := s.Wipe(0); err != nil {
			t.Fatal(err)
		}
		restoreUnderKills(t, s, file, 1+8*round) // at each step, and at some
		restarted(t, s, 0)
		for name := range restoreLimits {
			if _, allowed := a.ask(s.Addr(0), name, "never seen"); allowed {
				t.Errorf("%s admits a key of which nothing is known, at once", name)
			}
		}
		a.crowdUntilAllAdmit(t, s.Addr(0))
	}
	lost := 0
	for _, instants := range a.all {
		lost += len(instants)
	}
	t.Logf("%d admissions in all", lost)
}

// endOfMark is in the calls of a restore that has removed its mark, which is its last step but one.
var endOfMark = regexp.MustCompile(`unlink(at)?\(.*/restoring"`)

// restoreUnderKills restores a file, and kills the process where it makes something last: at the first such call, at
// the second and so on, until it gets through. A directory that one of them left must not start. strace counts for each
// thread, so that some of the steps are met twice and the order may differ, but none is passed over by luck: a restore
// of this size takes no time.
func restoreUnderKills(t *testing.T, s *testcluster.Cluster, file string, stride int) {
	t.Helper()
	data, calls, killed, refused := s.Dir(0), filepath.Join(t.TempDir(), "calls"), 0, 0
	for step := 1; ; step += stride {
		const lasting = "fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat"
		out, err := exec.CommandContext(within(t, 2*time.Minute), "strace", "-f", "-qq", "-o", calls, "-e",
			"trace="+lasting,
			"-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", lasting, step), program(t), "restore", file,
			"--data-dir", data, "--node-id", s.Name(0), "--yes").CombinedOutput()
		if err == nil {
			break
		}
		if bytes.Contains(out, []byte("stint: restore")) || step > 500 {
			t.Fatalf("restore, to be killed at step %d: %v\n%s", step, err, out)
		}
		killed++
		if _, err := os.Stat(filepath.Join(data, "restoring")); err != nil {
			if _, err := os.Stat(filepath.Join(data, "stable.db")); err != nil {
				continue // nothing was written
			}
			// The last step of all makes the mark's end last: what is there is whole, and is judged as such.
			if traced, err := os.ReadFile(calls); err != nil || !endOfMark.Match(traced) {
				t.Fatalf("killed at step %d: it left neither a mark nor an empty directory: %v\n%s", step, err, traced)
			}
			break
		}
		before := len(s.Log(0))
		if err := s.Restart(0); err != nil {
			t.Fatal(err)
		}
		s.MayEnd(0)
		code, err := s.AwaitExit(within(t, 2*time.Minute), 0)
		if said := s.Log(0)[before:]; err != nil || code == 0 || !strings.Contains(said, "a restore that did not end") {
			t.Fatalf("half a restore was started, after a kill at step %d: status %d, %v\n%s", step, code, err, said)
		}
		refused++
	}
	t.Logf("killed %d restores; %d directories did not start", killed, refused)
	if killed < 3 || refused == 0 {
		t.Errorf("%d restores were killed, and %d directories left: that proves nothing", killed, refused)
	}
}
