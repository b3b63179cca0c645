//go:build proxies

package examples

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// exactly kills a node that only takes questions: the proxy asks the next one about the same requests.
func exactly(w *world) {
	const address = "127.0.1.1"
	w.crowd(address, (w.owner(address)+1)%w.nodes.Len())
}

// exactlyWithoutOwner kills the node that decides. Until another one does, requests fail, and may have been counted.
func exactlyWithoutOwner(w *world) {
	const address = "127.0.1.2"
	w.crowd(address, w.owner(address))
}

// crowd has 64 callers at one address send requests until each is denied, and kills a node when half of the quota is
// used. Exactly the quota passes, less what failed. In the end the node is back.
func (w *world) crowd(address string, dies int) {
	c := w.from(address)
	var mu sync.Mutex
	statuses := map[int]int{}
	var passed atomic.Int64
	half := make(chan struct{})
	var callers sync.WaitGroup
	for range crowd {
		callers.Go(func() {
			for status := 0; status != http.StatusTooManyRequests; {
				status = w.ask(c, "POST", "/items", nil).status
				mu.Lock()
				statuses[status]++
				mu.Unlock()
				if status == http.StatusOK && passed.Add(1) == requests/2 {
					close(half)
				}
			}
		})
	}
	await.Receive(w, "half of the requests", half)
	if err := w.nodes.Kill(dies); err != nil {
		w.Error(err)
	}
	callers.Wait()
	w.Logf("answers: %v", statuses)
	failed := 0
	for status, n := range statuses {
		switch status {
		case http.StatusOK, http.StatusTooManyRequests:
		case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
			failed += n
		default:
			w.Errorf("%d answers %d", n, status)
		}
	}
	if n := int(passed.Load()); n > requests || n+failed < requests && w.ids {
		w.Errorf("%d pass and %d fail, of at most %d that may pass", n, failed, requests)
	}
	if n := w.site.takes("/items"); n != int(passed.Load()) {
		w.Errorf("the site saw %d requests, and %d passed", n, passed.Load())
	}
	if err := w.used("site", address, requests); err != nil {
		w.Error(err)
	}
	if err := w.nodes.Restart(dies); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.nodes.AwaitReady(ctx); err != nil {
		w.Fatal(err)
	}
}

// owner is the node that decides about an address.
func (w *world) owner(address string) int {
	w.Helper()
	node := client{w.T, w.nodes.Addr(0)}
	var answer struct {
		Decision struct{ Positions []struct{ Shard uint32 } }
	}
	node.must("LimitService/Check", object{"entries": []object{entry("login", "ip:"+address)}}, &answer)
	is := -1
	await.Until(w, "the shard has an owner", func() bool {
		var cluster struct {
			Shards []struct {
				ID    uint32
				Owner string
			}
		}
		node.must("ClusterService/Status", object{}, &cluster)
		for _, s := range cluster.Shards {
			for i := range w.nodes.Len() {
				if s.ID == answer.Decision.Positions[0].Shard && s.Owner == w.nodes.Name(i) {
					is = i
				}
			}
		}
		return is >= 0
	})
	return is
}
