package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/node"
)

const hotQuota = 4000

// startHot starts a node with a hot policy whose leases last for so long.
func startHot(t *testing.T, lease time.Duration) *node.Node {
	dir := t.TempDir()
	file := filepath.Join(dir, "policies.yaml")
	text := fmt.Sprintf("policies: {hot: {lease: {units: 50, for: %v}, limits: [{name: day, quota: %d, "+
		"fixed_window: {period: 24h, anchor: first_hit}}]}}", lease, hotQuota)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Config{DataDir: filepath.Join(dir, "data"),
		ClientPorts: node.ClientPorts{APIAddr: "127.0.0.1:0"}, PoliciesFile: file, Dev: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := n.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func dialHot(t *testing.T, n *node.Node, c client.Config) *client.Client {
	c.Addresses = []string{"http://" + n.APIAddr()}
	limits, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// drain checks a key until it is denied, and returns how many were admitted, and how many of them from leases.
func drain(t *testing.T, limits *client.Client, key string, most int) (admitted, leased int) {
	for range most {
		d, err := limits.Check(t.Context(), client.Entry("hot", key))
		if err != nil {
			t.Error(err)
			return admitted, leased
		}
		if !d.Allowed {
			return admitted, leased
		}
		admitted++
		if d.Leased {
			leased++
		}
	}
	return admitted, leased
}

// used returns how many units of a key are used, and when, in shard time.
func used(t *testing.T, limits *client.Client, key string) (units uint64, at time.Time) {
	state, err := limits.Get(t.Context(), &stintv1.GetRequest{Entries: []*stintv1.Entry{{Policy: "hot", Key: key}}})
	if err != nil {
		t.Fatal(err)
	}
	return state.Limits[0].Used, state.At.AsTime()
}

// Three processes with 64 goroutines each, beside a node that holds leases too, never admit more than the limit. When
// they are closed, what they have not spent is there for the next one, to the last unit.
func TestClientsWithLeasesAdmitExactlyTheLimit(t *testing.T) {
	n := startHot(t, 10*time.Second) // what a busy machine returns later than that is gone
	plain := dialHot(t, n, client.Config{})
	defer plain.Close()
	var admitted, leased atomic.Int64
	var holders []*client.Client
	var guests sync.WaitGroup
	for range 3 {
		limits := dialHot(t, n, client.Config{Leases: true})
		holders = append(holders, limits)
		for range 64 {
			guests.Go(func() {
				a, l := drain(t, limits, "k", hotQuota)
				admitted.Add(int64(a))
				leased.Add(int64(l))
			})
		}
	}
	guests.Wait()
	for _, limits := range holders {
		limits.Close()
	}
	rest := 0
	await.Until(t, "the leases of the node are back", func() bool { // it holds some for the client without
		more, _ := drain(t, plain, "k", hotQuota)
		rest += more
		return admitted.Load()+int64(rest) >= hotQuota
	})
	more, _ := drain(t, plain, "k", hotQuota)
	if sum := admitted.Load() + int64(rest+more); sum != hotQuota || leased.Load() < hotQuota/4 {
		t.Errorf("%d were admitted of %d, %d of them from leases", sum, hotQuota, leased.Load())
	}
}

// cable is a way to the cluster that can be cut, and counts the checks that go over it.
type cable struct {
	http.RoundTripper
	cut    atomic.Bool
	checks atomic.Int64
}

func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errors.New("cut")
	}
	if r.URL.Path == stintv1connect.LimitServiceCheckBatchProcedure {
		c.checks.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// A client that ends without a word has spent its lease: the units are gone, and no more than those.
func TestAClientThatDiesHasSpentItsLease(t *testing.T) {
	n := startHot(t, time.Second)
	plain := dialHot(t, n, client.Config{})
	defer plain.Close()
	way := &cable{RoundTripper: &http.Transport{}}
	defer way.RoundTripper.(*http.Transport).CloseIdleConnections()
	limits := dialHot(t, n, client.Config{Leases: true, HTTP: &http.Client{Transport: way}})
	admitted := 0
	await.Until(t, "its own lease answers, and not the node's", func() bool {
		sent := way.checks.Load()
		a, leased := drain(t, limits, "k", 1)
		admitted += a
		return leased == 1 && way.checks.Load() == sent
	})
	way.cut.Store(true)
	limits.Close()
	before, at := used(t, plain, "k")
	if before <= uint64(admitted) {
		t.Errorf("%d are used with its lease, and %d were admitted", before, admitted)
	}
	after, ends := before, at.Add(time.Second)
	await.Until(t, "the lease has ended", func() bool {
		after, at = used(t, plain, "k")
		return at.After(ends)
	})
	// One of those that were admitted came from the lease, which had up to 50 units.
	if after <= uint64(admitted) || after > uint64(admitted)-1+50 {
		t.Errorf("%d are used after the end of its lease, and %d were admitted", after, admitted)
	}
}
