//go:build chaos

package inbound_test

import (
	"testing"

	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// A node of three is killed while each kind of server asks: still exactly 150 of 300 pass.
func TestServersAreExactWhileANodeIsKilled(t *testing.T) {
	nodes := testcluster.Run(t, testcluster.Options{Nodes: 3, Direct: true, Policies: policies})
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
