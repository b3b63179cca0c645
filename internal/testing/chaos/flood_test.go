//go:build chaos && flood

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// The memory of the flooded nodes, the part of it for records, and the duration of the flood.
const (
	floodMemory = 128 << 20
	floodShards = 3
	floodBudget = floodMemory / 2
	floodTime   = time.Minute
	floodBatch  = 250
)

const floodPolicies = `policies:
  free:
    limits:
      - {name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}
  counted:
    count_denied: true
    limits:
      - {name: day, quota: 1, fixed_window: {period: 24h, anchor: first_hit}}
  log:
    limits:
      - {name: log, quota: 10000, sliding_log: {period: 24h}}
  held:
    limits:
      - {name: open, quota: 1000000, concurrency: {}}
`

// TestFloodOfRecords floods three nodes of little memory, for a minute and from all sides at once, with everything that
// leaves records: new keys, new ids, denials that are counted, long logs, holds, cancels and refunds, and INCRs of the
// Redis port. The records must stay below their part of it, and no node may die. A key that existed before is served
// throughout, and so are the holds.
func TestFloodOfRecords(t *testing.T) {
	t.Setenv("GOMEMLIMIT", strconv.Itoa(floodMemory))
	c := newClusterWith(t, testcluster.Options{Policies: floodPolicies, Redis: true, Shards: floodShards})
	f := &flood{T: t, cluster: c, outcomes: map[string]*atomic.Int64{}}
	for _, name := range []string{"free/known", "log/known"} {
		policy, _, _ := strings.Cut(name, "/")
		if got, err := newClient(c.Addr(0)).check(policy, "known", ""); got != admitted {
			t.Fatalf("before the flood: %v, %v", got, err)
		}
	}
	kinds := []func(*flood, *client, *rand.Rand, int){(*flood).newKeys, (*flood).newIDs, (*flood).denials,
		(*flood).logs, (*flood).holds}
	for _, name := range []string{"keys", "ids", "denials", "logs", "holds", "redis", "known", "known refused",
		"told full"} {
		f.outcomes[name] = new(atomic.Int64)
	}
	var callers sync.WaitGroup
	for i := range 15 {
		callers.Go(func() {
			random, client := rand.New(rand.NewPCG(uint64(i), 1)), newClient(c.Addr(i%3))
			for n := 0; !f.over.Load(); n++ {
				kinds[i%len(kinds)](f, client, random, i*1_000_000+n)
			}
		})
	}
	callers.Go(func() { f.redis(c.RedisAddr(0)) })
	callers.Go(f.known)
	f.watch()
	callers.Wait()
	f.judge()
}

type flood struct {
	*testing.T
	cluster  *testcluster.Cluster
	over     atomic.Bool
	outcomes map[string]*atomic.Int64
	records  [3]float64           // the most bytes of the records of each node
	resident [3]float64           // the most memory of each process
	full     [floodShards]float64 // how often a shard's owners reported that there is no room
}

func (f *flood) count(what string, n int) { f.outcomes[what].Add(int64(n)) }

// batch sends many checks at once, and counts the decided ones.
func (f *flood) batch(c *client, what, policy string, body func(i int) checkBody) {
	var message struct {
		Checks []checkBody `json:"checks"`
	}
	for i := range floodBatch {
		one := body(i)
		one.Entries[0].Policy = policy
		message.Checks = append(message.Checks, one)
	}
	var reply struct {
		Results []struct {
			Decision *struct{} `json:"decision"`
			Failure  *struct {
				Message string `json:"message"`
			} `json:"failure"`
		} `json:"results"`
	}
	if status, err := c.call("CheckBatch", message, &reply); err != nil || status != http.StatusOK {
		return // on a busy machine some time out
	}
	for _, r := range reply.Results {
		if r.Decision != nil {
			f.count(what, 1)
		} else if r.Failure != nil && strings.Contains(r.Failure.Message, "holds as many records") {
			f.count("told full", 1)
		}
	}
}

func keyOf(key string) []entryBody { return []entryBody{{Key: key}} }

func (f *flood) newKeys(c *client, _ *rand.Rand, n int) {
	f.batch(c, "keys", "free", func(i int) checkBody {
		return checkBody{Entries: keyOf(fmt.Sprint("new:", n, ":", i))}
	})
}

func (f *flood) newIDs(c *client, random *rand.Rand, n int) {
	f.batch(c, "ids", "free", func(i int) checkBody {
		return checkBody{Entries: keyOf(fmt.Sprint("few:", random.IntN(20))), ID: fmt.Sprint(n, ":", i)}
	})
}

func (f *flood) denials(c *client, random *rand.Rand, _ int) {
	f.batch(c, "denials", "counted", func(int) checkBody {
		return checkBody{Entries: keyOf(fmt.Sprint("hot:", random.IntN(20)))}
	})
}

func (f *flood) logs(c *client, random *rand.Rand, _ int) {
	f.batch(c, "logs", "log", func(int) checkBody {
		return checkBody{Entries: keyOf(fmt.Sprint("log:", random.IntN(2000)))}
	})
}

// holds reserves, and cancels three of four holds: a hold must be able to end on a full shard too.
func (f *flood) holds(c *client, random *rand.Rand, n int) {
	var reply struct {
		Decision struct {
			HoldID string `json:"holdId"`
		} `json:"decision"`
	}
	status, err := c.call("Reserve", map[string]any{"ttl": "3600s",
		"check": checkBody{Entries: []entryBody{{"held", fmt.Sprint("hold:", random.IntN(5000))}}}}, &reply)
	if err != nil || status != http.StatusOK || reply.Decision.HoldID == "" || n%4 == 0 {
		return
	}
	var settled struct {
		Message string `json:"message"`
	}
	status, err = c.call("Settle", map[string]any{"holdId": reply.Decision.HoldID, "cancel": map[string]any{}},
		&settled)
	if err == nil && status == http.StatusOK {
		f.count("holds", 1)
	} else if strings.Contains(settled.Message, "holds as many records") {
		f.Errorf("a hold could not be cancelled: %s", settled.Message)
	}
}

// redis counts on new keys through the Redis port, in pipelines.
func (f *flood) redis(address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		f.Error(err)
		return
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for n := 0; !f.over.Load(); n++ {
		var commands bytes.Buffer
		for i := range floodBatch {
			fmt.Fprintf(&commands, "INCR redis:%d:%d\r\n", n, i)
		}
		if _, err := conn.Write(commands.Bytes()); err != nil {
			f.Errorf("the Redis port: %v", err)
			return
		}
		for range floodBatch {
			line, err := in.ReadString('\n')
			if err != nil {
				f.Errorf("the Redis port: %v", err)
				return
			}
			if line[0] == ':' {
				f.count("redis", 1)
			}
		}
	}
}

// known asks for a key that existed before the flood. It must never be refused for lack of memory.
func (f *flood) known() {
	c := newClient(f.cluster.Addr(1))
	for !f.over.Load() {
		var reply struct {
			Decision *struct{} `json:"decision"`
			Message  string    `json:"message"`
		}
		_, err := c.call("Check", checkBody{Entries: []entryBody{{"free", "known"}}}, &reply)
		switch {
		case err == nil && reply.Decision != nil:
			f.count("known", 1)
		case strings.Contains(reply.Message, "holds as many records"):
			f.count("known refused", 1)
			f.Errorf("a key that was there: %s", reply.Message)
		}
		pause(f.Context(), 20*time.Millisecond)
	}
}

// watch checks the nodes until the flood is over: after floodTime, or later if some shard is not full by then, as on a
// busy machine.
func (f *flood) watch() {
	for began := time.Now(); time.Since(began) < 5*floodTime; pause(f.Context(), time.Second) {
		for i := range 3 {
			f.look(i)
		}
		if time.Since(began) >= floodTime && !slices.Contains(f.full[:], 0) {
			break
		}
	}
	f.over.Store(true)
}

func (f *flood) look(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.cluster.Addr(i)+"/metrics", nil)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // it is checked again
	}
	defer response.Body.Close()
	records := 0.0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, _ := strconv.ParseFloat(text, 64)
		switch {
		case name == "process_resident_memory_bytes":
			f.resident[i] = max(f.resident[i], value)
		case strings.HasPrefix(name, "stint_record_bytes{"):
			records += value
		}
		for shard := range floodShards {
			if name == fmt.Sprintf("stint_memory_full_total{shard=%q}", strconv.Itoa(shard)) {
				f.full[shard] = max(f.full[shard], value)
			}
		}
	}
	f.records[i] = max(f.records[i], records)
}

func (f *flood) judge() {
	for i, most := range f.records {
		f.Logf("node %d: %.0f MiB resident at most; %.2f MiB of records, %.1f %% of their part", i,
			f.resident[i]/(1<<20), most/(1<<20), 100*most/floodBudget)
		if most > 1.02*floodBudget {
			f.Errorf("the records of node %d took %.0f bytes, of %d", i, most, floodBudget)
		}
		if most < 0.8*floodBudget {
			f.Errorf("the records of node %d took %.0f bytes, of %d: that was no flood", i, most, floodBudget)
		}
	}
	for what, n := range f.outcomes {
		if f.Logf("%s: %d", what, n.Load()); n.Load() == 0 && what != "known refused" {
			f.Errorf("%s: none", what)
		}
	}
	for shard, told := range f.full {
		if told == 0 {
			f.Errorf("shard %d was never full", shard)
		}
	}
	for _, surprise := range f.cluster.Surprises() {
		f.Error(surprise)
	}
}
