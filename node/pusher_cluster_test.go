package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// heldBatch is a batch of bills that a receiver has taken, and does not answer.
type heldBatch struct {
	node string
	ids  []string
}

// Three nodes push the bills of their shards. One of them stops while its batch has no answer: the next owners send
// that batch again, with the ids that it had, and go on after what was noted.
func TestOtherNodesGoOnWithAPush(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		senders := map[string][]string{} // by id
		keys := map[string]string{}      // ids by key
		batches := map[string]int{}      // by node
		var held *heldBatch
		holds := make(chan heldBatch, 1)
		receiver := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var e struct {
				Data struct{ Records []pushedBill }
			}
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
				t.Error(err)
			}
			node := strings.TrimPrefix(r.UserAgent(), "stint/")
			mu.Lock()
			b := heldBatch{node: node}
			for _, bill := range e.Data.Records {
				if before := keys[bill.Key]; before != "" && before != bill.ID {
					t.Errorf("%s has two ids: %s and %s", bill.Key, before, bill.ID)
				}
				keys[bill.Key] = bill.ID
				senders[bill.ID] = append(senders[bill.ID], node)
				b.ids = append(b.ids, bill.ID)
			}
			batches[node]++
			hold := held == nil && batches[node] == 2
			if hold {
				held = &b
			}
			mu.Unlock()
			if hold {
				holds <- b
				<-r.Context().Done() // its node stops
			}
		}))
		receiver.Start()
		t.Cleanup(receiver.Close)

		c := trioToBe(t)
		for i := range c.configs {
			pushing(t, &c.configs[i])
			c.configs[i].Version = c.configs[i].NodeID // in the User-Agent
			c.start(i)
		}
		c.ready(0, 1, 2)
		n := c.nodes[0]
		if _, err := n.sinkAdmin.Create(t.Context(), notify.Sink{Name: "invoices", Kind: notify.Webhook,
			URL: receiver.URL, Events: []string{notify.Usage}}, "jo"); err != nil {
			t.Fatal(err)
		}
		const bills = 800
		for i := range bills {
			if r := c.ask(i%3, shard.Check, "plan", fmt.Sprint("k", i)); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		c.stop(0, 1, 2)
		time.Sleep(dayAndGrace)
		for i := range c.configs {
			c.start(i)
		}

		b := await.Receive(t, "a batch without an answer", holds)
		for i := range c.nodes {
			if c.configs[i].NodeID == b.node {
				c.stop(i)
			}
		}
		await.Until(t, "all bills are pushed, and that batch by another node", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(keys) == bills && len(senders[b.ids[0]]) > 1
		})
		mu.Lock()
		defer mu.Unlock()
		again := 0
		for id, nodes := range senders {
			if again += len(nodes) - 1; len(nodes) > 2 {
				t.Errorf("%s came %d times", id, len(nodes))
			}
		}
		for _, id := range b.ids {
			if nodes := senders[id]; len(nodes) != 2 || nodes[0] != b.node || nodes[1] == b.node {
				t.Errorf("%s of the batch without an answer came from %v", id, nodes)
			}
		}
		if again != len(b.ids) {
			t.Errorf("%d bills came again, and the batch had %d", again, len(b.ids))
		}
	})
}
