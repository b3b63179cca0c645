package redis

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// callTakes is the duration of a call in a slow world.
const callTakes = 5 * time.Millisecond

// slow is a world with calls that take callTakes.
type slow struct{ *world }

func (s slow) Submit(ctx context.Context, id shard.ID, requests []shard.Request) []shard.Result {
	time.Sleep(callTakes)
	return s.world.Submit(ctx, id, requests)
}

func serveSlowly(t *testing.T) (*world, *Server) {
	w := newWorld(t)
	s, _ := serve(t, w, func(c *Config) { c.Router = slow{w} })
	return w, s
}

func (w *world) callsSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls)
}

// dialMany connects n clients.
func dialMany(t *testing.T, s *Server, n int) (clients []*client) {
	for range n {
		clients = append(clients, dial(t, s))
	}
	return clients
}

// askInTurns makes clients send commands a number of times, each soon after its reply.
func askInTurns(clients []*client, times int) {
	var group sync.WaitGroup
	for i, c := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range times {
				c.ask("INCR key")
				time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
			}
		})
	}
	group.Wait()
}

func TestClientsWhoAskAgainAtOnceShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := serveSlowly(t)
		clients := dialMany(t, s, 20)
		askInTurns(clients, 50)
		before, began := w.callsSoFar(), time.Now()
		askInTurns(clients, 50)
		if mean := 1000 / float64(w.callsSoFar()-before); mean < 18 {
			t.Errorf("1,000 commands of 20 clients came in calls of %.1f", mean)
		}
		if took := time.Since(began); took > 55*(callTakes+300*time.Microsecond) {
			t.Errorf("50 calls of %v took %v", callTakes, took)
		}
	})
}

func TestAClientAloneNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serveSlowly(t)
		clients := dialMany(t, s, 20)
		askInTurns(clients, 50)
		clients[0].ask("INCR key")
		for i := range 100 {
			command := "INCR key"
			if i%2 == 0 { // a pipeline is one client, however long it is
				command += "\r\nINCR key\r\nINCR key"
			}
			began := time.Now()
			clients[0].ask(command)
			if took := time.Since(began); took != callTakes {
				t.Fatalf("a call takes %v, and the reply came after %v", callTakes, took)
			}
			if i%2 == 0 {
				clients[0].reply()
				clients[0].reply()
			}
		}
	})
}

// Clients that send at their own times are not delayed for each other, except for an attempt now and then.
func TestClientsWhoDoNotAskAgainAreNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serveSlowly(t)
		const arrivals, learning = 13000, 1000 // of 2,000 the mean differed by 60 us from run to run
		clients := dialMany(t, s, 100)
		askInTurns(clients[:20], 50) // the pace learned from other clients does not last
		idle := make(chan *client, len(clients))
		for _, c := range clients {
			idle <- c
		}
		var mu sync.Mutex
		var latency, least time.Duration
		var group sync.WaitGroup
		at := time.Duration(0) // when the next command comes
		// end of the call that would be under way without any wait, and start of the latest call
		var ends, gone time.Duration
		began, random := time.Now(), rand.New(rand.NewPCG(1, 1))
		for i := range arrivals {
			at += time.Duration(random.ExpFloat64() * float64(callTakes/3))
			if at > ends { // no call is under way
				gone, ends = at, at+callTakes
			} else if at > gone { // the next call takes it
				gone, ends = ends, ends+callTakes
			}
			if i >= learning {
				least += ends - at
			}
			time.Sleep(at - time.Since(began))
			group.Go(func() {
				asked := time.Now()
				c := <-idle
				c.ask("INCR key")
				idle <- c
				mu.Lock()
				defer mu.Unlock()
				if i >= learning {
					latency += time.Since(asked)
				}
			})
		}
		group.Wait()
		if more := (latency - least) / (arrivals - learning); more > callTakes/20 {
			t.Errorf("a command waits %v longer than for its call", more)
		}
	})
}

// Where a node's clients ask many shards, a command does not wait for the call that its shard has under way; but the
// calls of a shard stay few.
func TestWhereClientsAskManyShardsNobodyWaitsForACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := serveSlowly(t)
		clients := dialMany(t, s, 6*callsMost)
		elsewhere, here := clients[:4*callsMost], clients[4*callsMost:]
		for _, c := range elsewhere {
			c.send("INCR " + keyOn(w, 1) + "\r\n")
		}
		for _, c := range here { // one by one
			c.send("INCR " + keyOn(w, 0) + "\r\n")
			synctest.Wait()
			time.Sleep(callTakes / 100)
		}
		l := s.queues.of(0)
		l.mu.Lock()
		calls, queued := l.calls, l.held.requests
		l.mu.Unlock()
		if calls != callsMost || queued != len(here)-callsMost {
			t.Errorf("%d calls of the shard are under way, and %d requests wait", calls, queued)
		}
		began := time.Now()
		for _, c := range here[:callsMost] {
			c.reply()
		}
		if took := time.Since(began); took >= callTakes {
			t.Errorf("a call takes %v, and the commands that had one of their own are answered after %v",
				callTakes, took)
		}
		for _, c := range here[callsMost:] {
			c.reply()
		}
		if took := time.Since(began); took >= 2*callTakes {
			t.Errorf("a call takes %v, and those who waited for one are answered after %v", callTakes, took)
		}
	})
}

func TestCloseEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := serveSlowly(t)
		clients := dialMany(t, s, 20)
		askInTurns(clients, 50)
		l := s.queues.of(shard.Of(slot.Even(4), shard.DefaultNamespace, "key"))
		waits := func() bool { // whether the first client to return waits for the others
			var group sync.WaitGroup
			for _, c := range clients {
				group.Go(func() { c.ask("INCR key") })
			}
			group.Wait()
			time.Sleep(callTakes / 10)
			clients[0].send("INCR key\r\n")
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.want > 0
		}
		for attempt := 0; !waits(); attempt++ { // the wait may just have been in vain
			if clients[0].reply(); attempt == 300 {
				t.Fatal("no call waits")
			}
			askInTurns(clients, 1)
		}
		began := time.Now()
		var closed sync.WaitGroup
		closed.Go(func() { s.Close(context.Background()) })
		clients[0].reply()
		if took := time.Since(began); took != callTakes {
			t.Errorf("a call takes %v, and Close has it answered after %v", callTakes, took)
		}
		closed.Wait()
	})
}
