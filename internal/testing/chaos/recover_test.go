//go:build chaos

package chaos

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/limit"
)

// ledger counts, by key of the policy stock, what was certainly admitted, and what may have been.
type ledger struct {
	mu               sync.Mutex
	admitted, unsure map[string]uint64
}

// spend takes a unit, and returns the units used then, or 0 without an answer.
func (l *ledger) spend(address, key string) (used uint64) {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Post("http://"+address+"/stint.v1.LimitService/Check", "application/json",
		strings.NewReader(fmt.Sprintf(`{"entries":[{"policy":"stock","key":%q}]}`, key)))
	var reply struct {
		Decision *struct {
			Allowed bool
			Limits  []struct {
				Used uint64 `json:",string"`
			}
		}
	}
	if err == nil {
		defer response.Body.Close()
		err = json.NewDecoder(response.Body).Decode(&reply)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || reply.Decision == nil {
		l.unsure[key]++
		return 0
	}
	if reply.Decision.Allowed {
		l.admitted[key]++
	}
	if len(reply.Decision.Limits) != 1 {
		return 0
	}
	return reply.Decision.Limits[0].Used
}

// crowd spends through all nodes until end is closed.
func (l *ledger) crowd(addresses []string, end <-chan struct{}) (done *sync.WaitGroup) {
	done = new(sync.WaitGroup)
	for worker := range 6 {
		done.Go(func() {
			for n := worker; ; n++ {
				select {
				case <-end:
					return
				default:
					l.spend(addresses[n%len(addresses)], fmt.Sprint("key-", n%8))
				}
			}
		})
	}
	return done
}

// TestRecoverFromKilledNodes: three nodes under load are killed at once. A backup is recovered from the disks of all,
// of two or of one, by processes that are killed at any step. No limit admits too much over both clusters, and of a
// majority's disks nothing that was acknowledged is missing.
func TestRecoverFromKilledNodes(t *testing.T) {
	for name, nodes := range map[string][]int{"three disks": {0, 1, 2}, "two disks": {2, 0}, "one disk": {1}} {
		t.Run(name, func(t *testing.T) { recoverFrom(t, nodes) })
	}
}

func recoverFrom(t *testing.T, nodes []int) {
	var text strings.Builder
	text.WriteString("policies:\n  stock: {limits: [{name: l, quota: 1000000, lifetime: {}}]}\n")
	for name, l := range restoreLimits {
		fmt.Fprintf(&text, "  %s: {limits: [{name: l, quota: %d, %s}]}\n", name, l.Quota, l.yaml)
	}
	c := newClusterWith(t, testcluster.Options{Policies: text.String(), Direct: true})
	a := &admissions{all: map[[2]string][]limit.Time{}}
	book := &ledger{admitted: map[string]uint64{}, unsure: map[string]uint64{}}
	random := rand.New(rand.NewPCG(seed(t), 2))
	end := make(chan struct{})
	crowds := []*sync.WaitGroup{book.crowd(c.Addrs(), end)}
	for _, address := range c.Addrs() {
		crowds = append(crowds, a.crowd(address, end))
	}
	// the random part is the moment of the kill
	pause(t.Context(), time.Duration(2000+random.IntN(2000))*time.Millisecond)
	binary := program(t)
	file := filepath.Join(t.TempDir(), "stint.backup")
	args := []string{"tool", "recover", "-o", file}
	var dirs []string
	for _, i := range nodes {
		dirs = append(dirs, c.Dir(i))
	}
	args = append(args, dirs...)
	if said, err := exec.Command(binary, args...).CombinedOutput(); err == nil ||
		!strings.Contains(string(said), "in use by another process") {
		t.Errorf("recovered from the disks of running nodes: %v\n%s", err, said)
	}
	for i := range c.Len() {
		if i != nodes[0] {
			continue
		}
		if err := c.Kill(i); err != nil { // the others live
			t.Fatal(err)
		}
	}
	if said, err := exec.Command(binary, "tool", "recover", "-o", file, c.Dir(nodes[0])).CombinedOutput(); err == nil ||
		!strings.Contains(string(said), "answers at") {
		t.Errorf("recovered while a node answers: %v\n%s", err, said)
	}
	for i := range c.Len() {
		if i != nodes[0] {
			if err := c.Kill(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(end)
	for _, done := range crowds {
		done.Wait()
	}
	exact := len(nodes) > 1
	before := contents(t, dirs)
	if !exact {
		if said, err := exec.Command(binary, args...).CombinedOutput(); err == nil ||
			!strings.Contains(string(said), "--accept-loss") {
			t.Errorf("a loss was accepted by nobody: %v\n%s", err, said)
		}
		args = append(args, "--accept-loss")
	}
	recoverUnderKills(t, binary, args, file, random)
	if !maps.Equal(before, contents(t, dirs)) {
		t.Error("the disks were changed")
	}
	s := newStoppedServer(t, text.String())
	if said, err := exec.Command(binary, "restore", file, "--data-dir", s.Dir(0), "--node-id", s.Name(0),
		"--yes").CombinedOutput(); err != nil {
		t.Fatalf("restore: %v\n%s", err, said)
	}
	restarted(t, s, 0)
	for name := range restoreLimits {
		if _, allowed := a.ask(s.Addr(0), name, "never seen"); allowed != exact {
			t.Errorf("%s: a key of which nothing is known is allowed: %v", name, allowed)
		}
	}
	var acknowledged uint64
	for n := range 8 {
		key := fmt.Sprint("key-", n)
		least, most := book.admitted[key]+1, book.admitted[key]+book.unsure[key]+1
		used := book.spend(s.Addr(0), key)
		if exact && used < least || used > most || used == 0 {
			t.Errorf("%s: %d are used, and it should be %d to %d", key, used, least, most)
		}
		acknowledged += least
	}
	if acknowledged < 100 {
		t.Errorf("only %d requests were acknowledged", acknowledged)
	}
	a.crowdUntilAllAdmit(t, s.Addr(0))
}

// recoverUnderKills recovers again and again, and kills the process at a random moment of the time that it takes. There
// is no file then, or a whole one. The last one ends by itself.
func recoverUnderKills(t *testing.T, binary string, args []string, file string, random *rand.Rand) {
	t.Helper()
	begun := time.Now()
	if said, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
		t.Fatalf("recover: %v\n%s", err, said)
	}
	took, killed := time.Since(begun), 0
	for range 20 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		patience := time.Duration(random.Int64N(int64(took))) // the moment of the kill
		if err := exec.CommandContext(within(t, patience), binary, args...).Run(); err != nil {
			killed++
		}
		if _, missing := os.Stat(file); missing == nil {
			data := filepath.Join(t.TempDir(), "data")
			if said, err := exec.Command(binary, "restore", file, "--data-dir", data,
				"--dry-run").CombinedOutput(); err != nil {
				t.Fatalf("the file is not whole: %v\n%s", err, said)
			}
		}
	}
	t.Logf("killed %d recoveries, which take %v", killed, took)
	if said, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
		t.Fatalf("recover: %v\n%s", err, said)
	}
}

// contents returns what directories hold.
func contents(t *testing.T, dirs []string) map[string][sha256.Size]byte {
	t.Helper()
	found := map[string][sha256.Size]byte{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				found[path] = [sha256.Size]byte{}
				return err
			}
			content, err := os.ReadFile(path)
			found[path] = sha256.Sum256(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
