//go:build chaos

package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestABackupOfFourShardsBecomesOneAndThree: clients of the restored cluster find their counts, holds and answers, and
// a restore that would part the keys of an open hold writes nothing.
func TestABackupOfFourShardsBecomesOneAndThree(t *testing.T) {
	s := newStoppedCluster(t, testcluster.Options{Nodes: 1, Direct: true, Shards: 4,
		Policies: "policies: {stock: {limits: [{name: all, quota: 100, lifetime: {}}]}}\n"})
	restarted(t, s, 0)
	const keys = 12
	call := func(procedure, body string) (answer struct {
		Decision struct {
			Replayed bool
			HoldID   string
			Limits   []struct{ Used json.Number }
		}
	}) {
		t.Helper()
		response, err := http.Post("http://"+s.Addr(0)+"/stint.v1.LimitService/"+procedure, "application/json",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || json.Unmarshal(text, &answer) != nil {
			t.Fatalf("%s %s: %d %s, %v", procedure, body, response.StatusCode, text, err)
		}
		return answer
	}
	entry := func(key, cost int) string {
		return fmt.Sprintf(`{"policy":"stock","key":"key-%d","cost":%d}`, key, cost)
	}
	check := func(key int) string {
		return fmt.Sprintf(`{"idempotencyId":"id-%d","entries":[%s]}`, key, entry(key, 1+key%3))
	}
	var all []string
	for key := range keys {
		call("Check", check(key))
		all = append(all, entry(key, 2))
	}
	reserve := func(ttl string) string {
		return fmt.Sprintf(`{"ttl":%q,"check":{"entries":[%s]}}`, ttl, strings.Join(all, ","))
	}
	held := call("Reserve", reserve("86400s")) // on all shards
	used := func() (units []string) {
		for _, l := range call("Get", fmt.Sprintf(`{"entries":[%s]}`, strings.Join(all, ","))).Decision.Limits {
			units = append(units, l.Used.String())
		}
		return units
	}
	backup := func() string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "stint.backup")
		if err := stint(t.Context(), "backup", file, "--addr", "http://"+s.Addr(0)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	restore := func(file, shards string) error {
		t.Helper()
		if err := errors.Join(s.Kill(0), s.Wipe(0)); err != nil {
			t.Fatal(err)
		}
		return stint(t.Context(), "restore", file, "--data-dir", s.Dir(0), "--node-id", s.Name(0), "--shards",
			shards, "--yes")
	}
	file, want := backup(), used()
	for _, shards := range []string{"3", "1"} {
		if err := restore(file, shards); err != nil {
			t.Fatal(err)
		}
		restarted(t, s, 0)
		if got := used(); !slices.Equal(got, want) {
			t.Errorf("%s shards: %v are used, want %v", shards, got, want)
		}
		for key := range keys {
			if !call("Check", check(key)).Decision.Replayed {
				t.Errorf("%s shards: the id of key %d runs again", shards, key)
			}
		}
		call("Settle", fmt.Sprintf(`{"holdId":%q,"commit":{}}`, held.Decision.HoldID))
		if got := used(); !slices.Equal(got, want) { // it took what it held
			t.Errorf("%s shards, settled: %v are used, want %v", shards, got, want)
		}
	}
	call("Reserve", reserve("86400s")) // on the one shard
	file = backup()
	if err := restore(file, "3"); err == nil ||
		!strings.Contains(err.Error(), "1 open holds have keys which would be on several shards") {
		t.Errorf("the keys of a hold were parted: %v", err)
	}
	if _, err := os.Stat(s.Dir(0)); !os.IsNotExist(err) {
		t.Errorf("a restore that was refused has written: %v", err)
	}
	if err := stint(t.Context(), "restore", file, "--data-dir", s.Dir(0), "--node-id", s.Name(0), "--yes"); err != nil {
		t.Fatal(err)
	}
	restarted(t, s, 0)
	for i := range want {
		n, _ := strconv.Atoi(want[i])
		want[i] = strconv.Itoa(n + 2)
	}
	if got := used(); !slices.Equal(got, want) {
		t.Errorf("to as many shards: %v are used, want %v", got, want)
	}
}
