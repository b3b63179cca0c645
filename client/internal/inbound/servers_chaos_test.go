//go:build chaos

package inbound_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// A node of three is killed while each kind of server asks: still exactly 150 of 300 pass.
func TestServersAreExactWhileANodeIsKilled(t *testing.T) {
	nodes := startNodes(t)
	var urls []string
	for _, addr := range nodes.Addrs() {
		urls = append(urls, "http://"+addr)
	}
	limits, err := client.New(client.Config{Addresses: urls})
	if err != nil {
		t.Fatal(err)
	}
	defer limits.Close()
	areExact(t, limits, func(i int, answered func() int64) (repair func()) {
		await.Until(t, "a third is answered", func() bool { return answered() >= 100 })
		if err := nodes.Kill(i); err != nil {
			t.Error(err)
		}
		return func() {
			if err := nodes.Restart(i); err != nil {
				t.Fatal(err)
			}
			if err := nodes.AwaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func startNodes(t *testing.T) *testcluster.Cluster {
	binary := filepath.Join(t.TempDir(), "stint")
	if out, err := exec.Command("go", "build", "-o", binary, "../../../cmd/stint").CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	dir, err := os.MkdirTemp("", "stint-servers-")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := testcluster.Start(t.Context(),
		testcluster.Options{Nodes: 3, Dir: dir, Direct: true, Binary: binary, Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nodes.Close()
		os.RemoveAll(dir)
	})
	return nodes
}
