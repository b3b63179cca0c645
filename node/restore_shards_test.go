package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/offline/recovery"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// reshaped is a node with a cluster that gets another number of shards by way of its disk, again and again.
type reshaped struct {
	*testing.T
	*Node
	config Config
	epoch  uint64 // the greatest that any shard has had
}

// become stops the node, recovers a backup from its disk, and restores it with another number of shards.
func (c *reshaped) become(shards uint32) {
	c.Helper()
	for _, replica := range c.replicas.all() {
		replica.group.View(func(s *shard.State) { c.epoch = max(c.epoch, s.Epoch()) })
	}
	stop(c.T, c.Node)
	r := recovered(c.T, recovery.Config{Inputs: []string{c.config.DataDir}})
	if !r.Exact {
		c.Fatalf("the disk is not exact: %+v", r.Shards)
	}
	file := written(c.T, r)
	if err := r.Close(); err != nil {
		c.Fatal(err)
	}
	c.config.DataDir = filepath.Join(c.TempDir(), fmt.Sprint("restored-", shards))
	plan := planned(c.T, file, restore.Config{DataDir: c.config.DataDir, NodeID: "r1", Shards: shards})
	if err := plan.Write(); err != nil {
		c.Fatal(err)
	}
	c.config.NodeID = "r1"
	c.Node = start(c.T, c.config)
	if table := c.view.newestTable(); table.Shards != shards || *table.Slots != *slot.Even(shards) {
		c.Fatalf("the table has %d shards", table.Shards)
	}
	for _, replica := range c.replicas.all() {
		replica.group.View(func(s *shard.State) {
			if s.Epoch() < c.epoch+1<<40 {
				c.Errorf("shard %v is at epoch %d, another was at %d", replica.Shard, s.Epoch(), c.epoch)
			}
		})
	}
}

func (c *reshaped) call(procedure, body string) string {
	c.Helper()
	return callAPI(c.T, c.Node, procedure, body)
}

// wantUsed waits until units are used: those on the other shards of an operation come and go behind its answer.
func (c *reshaped) wantUsed(used uint64, keys ...string) {
	c.Helper()
	for _, key := range keys {
		await.Until(c.T, fmt.Sprintf("%d units of %s", used, key), func() bool {
			r := ask(c.Node, shard.Get, "stock", key)
			return r.Err == nil && r.Decision.Limits[0].Used == used
		})
	}
}

// keysApart are keys which are on different shards, however many there are.
func keysApart() (first, last string) {
	for i := 0; first == "" || last == ""; i++ {
		key := fmt.Sprint("key-", i)
		switch at := slot.Of(shard.DefaultNamespace, key); {
		case at < slot.Count/8:
			first = key
		case at >= slot.Count-slot.Count/8:
			last = key
		}
	}
	return first, last
}

// TestHoldsAndIDsOutliveAnotherNumberOfShards: what several shards took is settled when they are one, what one took
// when there are several, and an id gets its answer either way.
func TestHoldsAndIDsOutliveAnotherNumberOfShards(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		config.Shards = 4
		policies := strings.ReplaceAll(restoredPolicies, "quota: 5", "quota: 100")
		if err := os.WriteFile(config.PoliciesFile, []byte(policies), 0o600); err != nil {
			t.Fatal(err)
		}
		c := &reshaped{T: t, Node: start(t, config), config: config}
		first, last := keysApart()
		entry := func(key string, cost int) string {
			return fmt.Sprintf(`{"policy":"stock","key":%q,"cost":%d}`, key, cost)
		}
		check := func(id string, entries ...string) string {
			return fmt.Sprintf(`{"entries":[%s],"idempotencyId":%q}`, strings.Join(entries, ","), id)
		}
		reserve := func(id string, entries ...string) string {
			return fmt.Sprintf(`{"check":%s,"ttl":"3600s"}`, check(id, entries...))
		}
		replayed := func(procedure, body, before string) {
			t.Helper()
			text := c.call(procedure, body)
			if !strings.Contains(text, `"replayed":true`) || limitsOf(t, text) != limitsOf(t, before) {
				t.Errorf("%s %s: %s, was %s", procedure, body, text, before)
			}
		}
		refused := func(settlement string) {
			t.Helper()
			if status, text := tryAPI(t, c.Node, "LimitService/Settle", settlement); status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", settlement, status, text)
			}
		}
		settle := func(answer, how string) {
			t.Helper()
			body := fmt.Sprintf(`{"holdId":%q,%s}`, decisionField(t, answer, "holdId"), how)
			c.call("LimitService/Settle", body)
			c.call("LimitService/Settle", body) // once, however often
		}

		across := c.call("LimitService/Reserve", reserve("across", entry(first, 3), entry(last, 4)))
		alone := c.call("LimitService/Reserve", reserve("alone", entry(last, 5)))
		decided := c.call("LimitService/Check", check("decided", entry(first, 10), entry(last, 10)))
		c.wantUsed(13, first)
		c.wantUsed(19, last)

		c.become(1)
		replayed("LimitService/Check", check("decided", entry(first, 10), entry(last, 10)), decided)
		replayed("LimitService/Reserve", reserve("across", entry(first, 3), entry(last, 4)), across)
		c.wantUsed(13, first)
		settle(across, `"commit":{"actualCost":[1,2]}`)
		c.wantUsed(11, first)
		c.wantUsed(17, last)
		together := c.call("LimitService/Check", check("together", entry(first, 20), entry(last, 20)))
		spans := c.call("LimitService/Reserve", reserve("spans", entry(first, 1), entry(last, 1)))
		extension := fmt.Sprintf(`{"holdId":%q,"extend":{"ttl":"3600s"},"idempotencyId":"longer"}`,
			decisionField(t, spans, "holdId"))
		extended := c.call("LimitService/Settle", extension)
		settlement := fmt.Sprintf(`{"holdId":%q,"cancel":{}}`, decisionField(t, spans, "holdId"))
		settled := c.call("LimitService/Settle", settlement)

		c.become(3)
		replayed("LimitService/Settle", settlement, settled)
		replayed("LimitService/Settle", extension, extended)
		refused(strings.Replace(settlement, "cancel", "failed", 1))
		replayed("LimitService/Check", check("together", entry(first, 20), entry(last, 20)), together)
		replayed("LimitService/Check", check("decided", entry(first, 10), entry(last, 10)), decided)
		settle(alone, `"cancel":{}`)
		c.wantUsed(31, first)
		c.wantUsed(32, last)
		refund := fmt.Sprintf(`{"decisionId":%q,"commit":{"actualCost":[5,6]},"idempotencyId":"parts"}`,
			decisionField(t, together, "decisionId"))
		var byParts string
		for range 2 { // once, by parts
			byParts = c.call("LimitService/Settle", refund)
			c.wantUsed(16, first)
			c.wantUsed(18, last)
		}
		held := c.call("LimitService/Reserve", reserve("held", entry(first, 3), entry(last, 4)))

		c.become(2)
		settle(held, `"cancel":{}`)
		c.wantUsed(16, first)
		c.wantUsed(18, last)
		c.call("LimitService/Settle", fmt.Sprintf(`{"decisionId":%q,"cancel":{}}`,
			decisionField(t, decided, "decisionId")))
		c.wantUsed(6, first)
		c.wantUsed(8, last)
		whole := c.call("LimitService/Check", check("whole", entry(first, 20), entry(last, 20)))

		c.become(1)
		cancel := func(answer string) string {
			return fmt.Sprintf(`{"decisionId":%q,"cancel":{}}`, decisionField(t, answer, "decisionId"))
		}
		c.call("LimitService/Settle", cancel(whole))
		replayed("LimitService/Settle", refund, byParts)
		replayed("LimitService/Settle", strings.Replace(refund, "parts", "joined", 1), byParts)
		refused(cancel(together))
		c.wantUsed(6, first)
		c.wantUsed(8, last)
		alike := c.call("LimitService/Check", check("alike", entry(first, 20), entry(last, 20)))
		fits := fmt.Sprintf(`{"decisionId":%q,"commit":{"actualCost":[0,0],"overage":"OVERAGE_REJECT"}}`,
			decisionField(t, alike, "decisionId"))
		refunded := c.call("LimitService/Settle", fits)
		c.wantUsed(6, first)
		c.wantUsed(8, last)

		c.become(5)
		replayed("LimitService/Settle", fits, refunded)
		refused(cancel(alike)) // it was refunded as a whole
		c.wantUsed(6, first)
		c.wantUsed(8, last)
		stop(t, c.Node)
	})
}

// limitsOf is what an answer says of limits.
func limitsOf(t *testing.T, answer string) string {
	t.Helper()
	var m struct {
		Decision struct{ Limits json.RawMessage }
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil || len(m.Decision.Limits) == 0 {
		t.Fatalf("%v: %s", err, answer)
	}
	return string(m.Decision.Limits)
}

// TestALostShardWithMovedSlotsIsRecovered: nothing is left of the shard that slots have moved to. What is left of the
// other goes on, and the slots count as full.
func TestALostShardWithMovedSlotsIsRecovered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		config.Shards = 2
		if err := os.WriteFile(config.PoliciesFile, []byte(restoredPolicies), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		stays, moves := keysApart() // on shard 0, which is lost, and on shard 1
		if r := ask(n, shard.Check, "login", moves); r.Err != nil {
			t.Fatal(r.Err)
		}
		if err := n.admin.SetShards(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "a slot has left shard 1", func() bool {
			var records []byte
			n.replicas.of(1).group.View(func(s *shard.State) { records = s.SlotRecords() })
			left, err := shard.MissingSlots([][]byte{nil, records})
			return err == nil && left > 0
		})
		stop(t, n)
		convict(t, config.DataDir, 0)
		r := recovered(t, recovery.Config{Inputs: []string{config.DataDir}, AcceptLoss: true})
		if r.Shards[0].Chosen != "" || !r.Shards[1].Exact {
			t.Fatalf("%+v", r.Shards)
		}
		after, _ := restoredNode(t, written(t, r))
		for _, key := range []string{stays, moves} {
			if got := spent(t, after, "login", key); got != 0 {
				t.Errorf("%s: %d are admitted", key, got)
			}
		}
	})
}
