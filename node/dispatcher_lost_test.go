package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

// What a shard has lost is counted on each node with a copy as it is lost. An alert at an increase would be raised
// again by a node that only hears of it when it owns the shard, perhaps weeks later.
func TestANewOwnerLosesNoEventsAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t, 1)
		for i := range c.nodes {
			c.configs[i].PoliciesFile = filepath.Join(t.TempDir(), "policies.yaml")
			text := strings.Replace(thresholdPolicy, "calendar: {unit: month}", "lifetime: {}", 1)
			if err := os.WriteFile(c.configs[i].PoliciesFile, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c.start(i)
		}
		c.ready(0, 1, 2)
		const kept, lost = 1024, 7
		decide := func(requests ...shard.Request) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for _, r := range c.nodes[0].Decide(ctx, requests) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		for key := range kept + lost {
			decide(shard.Request{Op: shard.Check, Namespace: shard.DefaultNamespace,
				Entries: []shard.Entry{{Policy: "plan", Key: fmt.Sprint(key), Cost: 5}}})
		}
		owner := c.nodes[c.owner(0)]
		var places []shard.EventPlace
		for _, e := range owner.dispatcher.outbox(owner.replicas.of(0)) {
			places = append(places, e.Place())
		}
		for some := range slices.Chunk(places, dispatchWindow) {
			decide(shard.GiveUpRequest(0, "billing", some, "nobody is there"))
		}
		time.Sleep(time.Minute) // a long outbox is read less often
		const series = `stint_events_lost_total{shard="0"}`
		if values := c.scraped(series); !slices.Equal(values, []int{lost, lost, lost}) {
			t.Errorf("the nodes say that %v events are lost, want %d", values, lost)
		}
		if len(places) != kept+lost {
			t.Errorf("%d events waited", len(places))
		}
	})
}
