package examples

import (
	"context"
	"flag"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// oneNode and threeNodes are shared: each test uses its own keys, so the tests do not disturb each other.
var oneNode, threeNodes = &sharedNodes{count: 1}, &sharedNodes{count: 3}

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "6") // by default: the tests mostly wait for windows to end, and for nodes
	code := m.Run()
	oneNode.stop()
	threeNodes.stop()
	os.Exit(code)
}

// binary returns the path of stint.
func binary(t *testing.T) string {
	t.Helper()
	path, err := testcluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts nodes with the policies of some files. They end with the test.
func start(t *testing.T, o testcluster.Options, policiesFiles ...string) *testcluster.Cluster {
	t.Helper()
	needLinux(t)
	o.Direct, o.Policies = true, policiesOf(t, policiesFiles...)
	return testcluster.Run(t, o)
}

// policiesOf joins the policies of some files.
func policiesOf(t *testing.T, files ...string) string {
	t.Helper()
	all := "policies:\n"
	for _, file := range files {
		_, list, found := strings.Cut(text(t, file), "policies:\n")
		if !found {
			t.Fatalf("%s has no line \"policies:\"", file)
		}
		all += list
	}
	return all
}

// sharedNodes are nodes with the policies of testdata/seeds.yaml and of some recipes. The first test that needs them
// starts them. A test that runs once more (go test -count), after all have ended, finds new ones: it has spent its
// keys.
type sharedNodes struct {
	count int

	mu      sync.Mutex
	dir     string
	cluster *testcluster.Cluster // nil: not started
	met     map[string]bool      // by the tests that have used them
}

func (s *sharedNodes) start(t *testing.T) *testcluster.Cluster {
	t.Helper()
	needLinux(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met[t.Name()] {
		s.stop()
	}
	if s.cluster == nil {
		var err error
		if s.dir, err = os.MkdirTemp(testcluster.InMemory(), "stint-examples-"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		s.met = map[string]bool{}
		s.cluster, err = testcluster.Start(ctx,
			testcluster.Options{Binary: binary(t), Nodes: s.count, Shards: 4, Dir: s.dir, Direct: true,
				Policies: policiesOf(t, "testdata/seeds.yaml", "hybrid/policies.yaml", "regulatory.yaml",
					"lifetime/policies.yaml", "billing/policies.yaml", "login/policies.yaml")})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.met[t.Name()] = true
	cluster := s.cluster
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(cluster.Logs())
		}
	})
	return cluster
}

func (s *sharedNodes) stop() {
	if s.cluster != nil {
		s.cluster.Close()
		s.cluster = nil
	}
	os.RemoveAll(s.dir)
}

// node is a client of the one shared node, beside tests that use it at the same time.
func node(t *testing.T) client { return oneNode.clients(t)[0] }

// nodes are clients of the three shared nodes, which are one cluster.
func nodes(t *testing.T) []client { return threeNodes.clients(t) }

func (s *sharedNodes) clients(t *testing.T) (all []client) {
	t.Helper()
	t.Parallel()
	for _, address := range s.start(t).Addrs() {
		all = append(all, client{t, address})
	}
	return all
}

// needLinux skips the test where the loopback has only one address.
func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("internal/testing/testcluster needs Linux")
	}
}
