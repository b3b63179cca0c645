//go:build chaos

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

const eventPolicies = `policies:
  plan:
    notify: [billing]
    idempotency_retention: 1h
    limits: [{name: month, quota: 10, calendar: {unit: month}, thresholds: [50%]}]
`

// receiver is a webhook that fails one first try in three, each time in another way.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	tries map[string]int    // by id
	taken map[string]string // key by id
	again int               // taken once more
	bad   int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{tries: map[string]int{}, taken: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var e struct {
			ID   string
			Data struct{ Key string }
		}
		if err != nil || json.Unmarshal(body, &e) != nil || e.ID != q.Header.Get("webhook-id") {
			t.Errorf("%v: %s", err, body)
			return
		}
		if r.fails(w, q, e.ID) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if key, before := r.taken[e.ID]; before && key == e.Data.Key {
			r.again++
		} else if before {
			t.Errorf("%s is about %s and %s", e.ID, key, e.Data.Key)
		}
		r.taken[e.ID] = e.Data.Key
	}))
	t.Cleanup(r.Close)
	return r
}

// fails reports whether a try is answered by a failure.
func (r *receiver) fails(w http.ResponseWriter, q *http.Request, id string) bool {
	r.mu.Lock()
	r.tries[id]++
	fails := r.tries[id] == 1 && len(r.tries)%3 == 0
	if fails {
		r.bad++
	}
	way := r.bad % 5
	r.mu.Unlock()
	if !fails {
		return false
	}
	switch way {
	case 0:
		<-q.Context().Done() // until the node gives up
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
	case 2:
		http.Redirect(w, q, "/elsewhere", http.StatusTemporaryRedirect)
	case 3:
		panic(http.ErrAbortHandler)
	default:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return true
}

// ids is how many ids each key has.
func (r *receiver) ids() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]int{}
	for _, key := range r.taken {
		all[key]++
	}
	return all
}

// TestEventsSurviveKilledOwners: while nodes are killed one after the other, keys reach a threshold, and a receiver
// fails. Every event arrives, and each key has one id.
func TestEventsSurviveKilledOwners(t *testing.T) {
	r := newReceiver(t)
	c := newClusterWith(t, testcluster.Options{Policies: eventPolicies, Args: []string{"--sink-allow", "127.0.0.1"}})
	said(t, "sink", "create", "billing", "--kind", "webhook", "--url", r.URL, "--events", "threshold", "--addr",
		"http://"+c.Addr(0))
	const keys = 60
	for i := range keys {
		down := i / 15 % c.Len()
		switch i % 15 {
		case 5:
			if err := c.Kill(down); err != nil {
				t.Fatal(err)
			}
		case 10:
			if err := c.Restart(down); err != nil {
				t.Fatal(err)
			}
			ready(t, c, down)
		}
		spendFive(t, c, i)
	}
	await.Until(t, "every event arrives", func() bool { return len(r.ids()) == keys })
	for key, ids := range r.ids() {
		if ids != 1 {
			t.Errorf("%s has %d ids", key, ids)
		}
	}
	t.Logf("%d tries failed, %d events were sent again after they were taken", r.bad, r.again)
}

// spendFive brings a key to its threshold, by requests that may be sent to any node any number of times.
func spendFive(t *testing.T, c *testcluster.Cluster, key int) {
	t.Helper()
	for n := range 5 {
		body := fmt.Appendf(nil, `{"idempotencyId":"%d-%d","entries":[{"policy":"plan","key":"key %d"}]}`, key, n, key)
		try := 0
		await.Until(t, "a check is answered", func() bool {
			try++
			answer, err := http.Post("http://"+c.Addr(try%c.Len())+"/stint.v1.LimitService/Check", "application/json",
				bytes.NewReader(body))
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
}
