//go:build chaos

package chaos

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// The policies of the clusters. None of the quotas comes back while a test runs: the window shows whether jumping
// clocks reopen it, the flood shows whether a denial is repeated too long.
const (
	clusterQuota    = 1000
	clusterStale    = 250 * time.Millisecond
	clusterPolicies = `policies:
  day:
    limits:
      - {name: day, quota: 1000, fixed_window: {period: 24h, anchor: first_hit}}
  stock:
    limits:
      - {name: stock, quota: 1000, lifetime: {}}
  flood:
    deny_cache: 250ms
    limits:
      - {name: flood, quota: 1000, lifetime: {}}
  lease-window:
    lease: {units: 100, for: 1s}
    limits:
      - {name: window, quota: 500, fixed_window: {period: 10s}}
  lease-log:
    lease: {units: 100, for: 1s}
    limits:
      - {name: log, quota: 500, sliding_log: {period: 10s}}
`
)

// clusterLeases are the policies of clusterPolicies that nodes answer from memory.
var clusterLeases = []verify.Lease{{Policy: "lease-window",
	Limit: verify.LeasedLimit{Quota: 500, Period: 10 * time.Second}},
	{Policy: "lease-log", Limit: verify.LeasedLimit{Quota: 500, Period: 10 * time.Second, Slides: true}}}

var clusterTargets = []verify.Target{{Policy: "day", Quota: clusterQuota}, {Policy: "stock", Quota: clusterQuota},
	{Policy: "flood", Quota: clusterQuota, Stale: clusterStale}}

// newCluster starts three nodes and shows their logs if the test fails.
func newCluster(t *testing.T) *testcluster.Cluster {
	return newClusterWith(t, testcluster.Options{Policies: clusterPolicies})
}

// manyShards is how many shards a cluster of these tests has, unless a test says otherwise: nodes own some each, and
// requests with several keys are operations.
const manyShards = 4

// newClusterWith is newCluster with options; it sets the binary itself.
func newClusterWith(t *testing.T, options testcluster.Options) *testcluster.Cluster {
	t.Helper()
	options.Binary, options.Dir = program(t), t.TempDir() // on a real disk
	options.Nodes, options.Shards = cmp.Or(options.Nodes, 3), cmp.Or(options.Shards, manyShards)
	return testcluster.Run(t, options)
}

// newServer starts one node, and newStoppedServer prepares it.
func newServer(t *testing.T, policies string) *testcluster.Cluster {
	t.Helper()
	s := newStoppedServer(t, policies)
	restarted(t, s, 0)
	return s
}

func newStoppedServer(t *testing.T, policies string) *testcluster.Cluster {
	t.Helper()
	return newStoppedCluster(t, testcluster.Options{Nodes: 1, Direct: true, Policies: policies})
}

// newStoppedCluster prepares a cluster without starting any node.
func newStoppedCluster(t *testing.T, options testcluster.Options) *testcluster.Cluster {
	t.Helper()
	options.Binary, options.Dir = program(t), t.TempDir() // on a real disk
	options.Shards = cmp.Or(options.Shards, manyShards)
	return testcluster.Prepare(t, options)
}

// restarted starts a node that does not run, and waits until it is ready.
func restarted(t *testing.T, c *testcluster.Cluster, i int) {
	t.Helper()
	if err := c.Restart(i); err != nil {
		t.Fatal(err)
	}
	ready(t, c, i)
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func ready(t *testing.T, c *testcluster.Cluster, nodes ...int) {
	t.Helper()
	if err := c.AwaitReady(within(t, 2*time.Minute), nodes...); err != nil {
		t.Fatal(err)
	}
}

// setting reads an environment variable.
func setting[T any](t *testing.T, name string, fallback T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// tags are the build tags of this test binary.
var tags = "chaos"

// seed is STINT_CHAOS_SEED or random, and is logged as the command that plays it again.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := setting(t, "STINT_CHAOS_SEED", uint64(time.Now().UnixNano()), func(text string) (uint64, error) {
		return strconv.ParseUint(text, 10, 64)
	})
	t.Logf("again: STINT_CHAOS_SEED=%d go test -tags %s -run '^%s$' ./internal/testing/chaos", s, tags, t.Name())
	return s
}

// mustVerify runs the clients while during runs, and fails the test if the result is not exact, or if a copy of a
// request was answered with another moment than its first.
func mustVerify(
	t *testing.T, c *testcluster.Cluster, p verify.Plan, during func(context.Context) error,
) *verify.Result {
	t.Helper()
	result := mustCount(t, c, p, during)
	if result.Unnumbered > 0 { // an owner that takes over still has the answers of its predecessor
		t.Errorf("%d admissions were answered with another moment's count", result.Unnumbered)
	}
	return result
}

// mustCount runs the clients while during runs, and fails the test if the result is not exact.
func mustCount(t *testing.T, c *testcluster.Cluster, p verify.Plan, during func(context.Context) error) *verify.Result {
	t.Helper()
	p.Addresses = append(p.Addresses, c.Addrs()...)
	p.Targets = clusterTargets
	result, err := verify.Run(context.Background(), p, during)
	if err != nil {
		t.Error(err)
	}
	if result == nil {
		t.FailNow()
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("limit %d, admitted %d; %s", result.Limit, result.Admitted, text)
	if !result.Exact {
		t.Errorf("not exact: %v", result.Findings)
	}
	if surprises := c.Surprises(); len(surprises) > 0 {
		t.Error(surprises)
	}
	return result
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// status is a node's report about its cluster.
type status struct {
	Nodes []struct {
		ID       string
		Alive    bool
		KeyLines []string
		Machine  struct{ LogWriteSlowest string } // in the last minute
	}
	Shards   []shardStatus
	Problems []string
}

type shardStatus struct {
	ID       uint32
	Owner    string
	Epoch    uint64 `json:",string"`
	Replicas []struct {
		Node   string
		Number uint64 `json:",string"`
		Voter  bool
	}
}

func statusOf(ctx context.Context, address string) (s status, err error) {
	err = askCluster(ctx, address, "Status", &s)
	return s, err
}

// askCluster makes a call of ClusterService without arguments, and reads its reply.
func askCluster(ctx context.Context, address, call string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/stint.v1.ClusterService/"+call,
		bytes.NewReader([]byte("{}")))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// awaitStatus asks a node until its status is as it should be; then problem returns "".
func awaitStatus(t *testing.T, address string, patience time.Duration, problem func(status) string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := "it does not answer"
	for {
		s, err := statusOf(ctx, address)
		if err == nil {
			if last = problem(s); last == "" {
				return nil
			}
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("after %v: %s (%v)", patience, last, err)
		}
	}
}

// votersOn says what is missing until every shard has exactly these nodes as voters.
func votersOn(nodes ...string) func(status) string {
	slices.Sort(nodes)
	return func(s status) string {
		if len(s.Shards) == 0 {
			return "no shards are listed"
		}
		for _, shard := range s.Shards {
			var voters []string
			for _, r := range shard.Replicas {
				if r.Voter {
					voters = append(voters, r.Node)
				}
			}
			slices.Sort(voters)
			if !slices.Equal(voters, nodes) || len(shard.Replicas) != len(nodes) || shard.Owner == "" {
				return fmt.Sprintf("shard %d has voters %v of %d replicas and owner %q, want %v", shard.ID, voters,
					len(shard.Replicas), shard.Owner, nodes)
			}
		}
		return ""
	}
}

// stint runs a command of the binary.
func stint(ctx context.Context, arguments ...string) error {
	binary, err := testcluster.Binary("chaos")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, binary, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("stint %v: %w\n%s", arguments, err, out)
	}
	return nil
}
