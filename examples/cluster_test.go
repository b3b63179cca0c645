package examples

import (
	"context"
	"fmt"
	"github.com/stint-io/stint/internal/testcluster"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// workDir holds the binary and the data of the shared nodes.
var workDir string

// shared are the clusters that tests share: each test uses its own keys, so they do not disturb each other.
var shared []*testcluster.Cluster

func TestMain(m *testing.M) {
	code := run(m)
	os.Exit(code)
}

func run(m *testing.M) int {
	var err error
	if workDir, err = os.MkdirTemp("", "stint-examples-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(workDir)
	defer func() {
		for _, c := range shared {
			c.Close()
		}
	}()
	return m.Run()
}

var buildBinary = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(workDir, "stint")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/stint-io/stint/cmd/stint").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
})

// start starts nodes with the policies of some files and waits until they are ready.
func start(nodes int, dir string, policiesFiles ...string) (*testcluster.Cluster, error) {
	return startAs(testcluster.Options{Nodes: nodes, Dir: dir, Direct: true}, policiesFiles...)
}

// startAs is start with other options.
func startAs(o testcluster.Options, policiesFiles ...string) (*testcluster.Cluster, error) {
	binary, err := buildBinary()
	if err != nil {
		return nil, err
	}
	o.Binary, o.Policies = binary, "policies:\n"
	for _, file := range policiesFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		_, list, found := strings.Cut(string(text), "policies:\n")
		if !found {
			return nil, fmt.Errorf("%s has no line \"policies:\"", file)
		}
		o.Policies += list
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return testcluster.Start(ctx, o)
}

var oneNode, threeNodes = sharedNodes(1), sharedNodes(3)

// sharedNodes starts the nodes when the first test needs them.
func sharedNodes(nodes int) func() (*testcluster.Cluster, error) {
	return sync.OnceValues(func() (*testcluster.Cluster, error) {
		dir, err := os.MkdirTemp(workDir, "nodes-")
		if err != nil {
			return nil, err
		}
		c, err := start(nodes, dir, "testdata/seeds.yaml", "hybrid/policies.yaml", "regulatory.yaml",
			"lifetime/policies.yaml", "billing/policies.yaml", "login/policies.yaml")
		if err == nil {
			shared = append(shared, c)
		}
		return c, err
	})
}

// node is a client of the one node with the policies of testdata/seeds.yaml and of some recipes.
func node(t *testing.T) client { return cluster(t, oneNode)[0] }

// nodes are clients of the three nodes of one cluster with the same policies.
func nodes(t *testing.T) []client { return cluster(t, threeNodes) }

func cluster(t *testing.T, begin func() (*testcluster.Cluster, error)) (clients []client) {
	t.Helper()
	needLinux(t)
	c, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	for _, address := range c.Addrs() {
		clients = append(clients, client{t, address})
	}
	return clients
}

// needLinux skips the test where the loopback has only one address.
func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("internal/testcluster needs Linux")
	}
}
