package examples

import (
	"sync"
	"testing"
)

// One key has one owner, whichever node is asked: callers of all three contend for the last units.
func TestSeedRow16OneOwnerForEachKey(t *testing.T) {
	clients := nodes(t)
	admitted := contend(t, clients, 150, entry("ever", "row 16"))
	if admitted != 100 {
		t.Errorf("%d of 150 are admitted, want 100", admitted)
	}
	for _, c := range clients {
		if limits, _ := c.get("ever", "row 16"); limits[0].Used != 100 {
			t.Errorf("%s says that %d are used, want 100", c.address, limits[0].Used)
		}
	}
}

// A hold from one node can be settled at another: a caller need not return to the node that it asked first.
func TestSeedRow16AHoldIsSettledAtAnyNode(t *testing.T) {
	clients := nodes(t)
	var holds []string
	for i := range 6 {
		d := clients[i%3].reserve(entry("ever", "row 16 holds", "cost", 10))
		if used := d.limit(t, "ever").Used; !d.Allowed || used != uint64(10*(i+1)) {
			t.Fatalf("hold %d: allowed %v, used %d", i+1, d.Allowed, used)
		}
		holds = append(holds, d.HoldID)
	}
	for i, hold := range holds {
		c := clients[(i+1)%3]
		action, how := "commit", object{"actualCost": []string{"7"}}
		if i >= 3 {
			action, how = "cancel", object{}
		}
		c.settle("holdId", hold, action, how)
		c.settle("holdId", hold, action, how) // sent twice, done once
	}
	for _, c := range clients {
		if limits, _ := c.get("ever", "row 16 holds"); limits[0].Used != 21 || limits[0].Held != 0 {
			t.Errorf("%s: three commits of 7 and three cancels, and used is %d, held %d",
				c.address, limits[0].Used, limits[0].Held)
		}
	}
}

// The lost update: at 99 of 100 two callers both read 99. Here only one of forty passes.
func TestSeedRow39NoLostUpdate(t *testing.T) {
	clients := nodes(t)
	clients[0].check("ever", "row 39", "cost", 99)
	if admitted := contend(t, clients, 40, entry("ever", "row 39")); admitted != 1 {
		t.Errorf("%d of 40 pass at 99 of 100, want 1", admitted)
	}
}

// A thousand an hour means a thousand in total over all nodes.
func TestSeedRow39AThousandAnHour(t *testing.T) {
	clients := nodes(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	admitted := 0
	for i := range 12 {
		wg.Go(func() {
			decisions, err := batch(clients[i%len(clients)].address, 100, entry("thousand", "row 39"))
			mu.Lock()
			defer mu.Unlock()
			admitted += allowed(decisions)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if admitted != 1000 {
		t.Errorf("%d of 1200 are admitted, want 1000", admitted)
	}
}

// contend makes n checks at once, spread over the nodes, and counts the admitted ones.
func contend(t *testing.T, clients []client, n int, e object) (admitted int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			decisions, err := batch(clients[i%len(clients)].address, 1, e)
			mu.Lock()
			defer mu.Unlock()
			admitted += allowed(decisions)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return admitted
}

func allowed(decisions []decision) (n int) {
	for _, d := range decisions {
		if d.Allowed {
			n++
		}
	}
	return n
}
