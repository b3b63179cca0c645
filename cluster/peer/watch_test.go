package peer

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/testing/await"
)

// watching lets a port send the decisions of a bus.
func watching(bus *decisions.Bus) func(*Config) {
	return func(c *Config) {
		answering(func(string, placement.Question) placement.Report { return placement.Report{} })(c)
		c.Watch = bus.Open
	}
}

func put(bus *decisions.Bus, key string) {
	bus.Put(&decisions.Record{Kind: decisions.Denied, Namespace: "default",
		Entry: decisions.Entry{Policy: "p", Key: key, Cost: 1}}, 0)
}

// A node hears the decisions of another one in their order, without gaps, until it hangs up or the other one closes.
func TestANodeHearsTheDecisionsOfAnother(t *testing.T) {
	noLeaks(t)
	bus := decisions.NewBus("n", nil)
	known := new(addresses)
	n1, n2 := openPort(t, known, "n1"), openPort(t, known, "n2", watching(bus))
	for _, closing := range []string{"the asker", "the port"} {
		conn := dialAsk(t, n1, "n2")
		var mu sync.Mutex
		var heard []string
		begun, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			q := placement.Question{Watch: &decisions.Filter{Namespace: "default", KeyPrefix: "k"}}
			ended <- Watch(conn, q, func() { close(begun) }, func(batch *decisions.Batch) {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range batch.Events {
					heard = append(heard, e.Key)
				}
			})
		}()
		<-begun
		for i := range 200 {
			put(bus, fmt.Sprint("k", i))
			put(bus, "another")
		}
		await.Until(t, "all decisions are heard", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(heard) == 200
		})
		for i, key := range heard {
			if key != fmt.Sprint("k", i) {
				t.Fatalf("the %d-th is %s", i, key)
			}
		}
		if closing == "the asker" {
			conn.Close()
		} else if err := n2.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil || errors.Is(err, ErrNoWatch) {
			t.Error(closing, "ended it with", err)
		}
		await.Until(t, closing+" has gone, and nobody listens", func() bool { return !bus.Listening() })
	}
}

// A node of an earlier release ignores the question, and one that is not listed gets no decisions: both say so by a
// report.
func TestWhoGetsNoDecisionsIsToldSo(t *testing.T) {
	noLeaks(t)
	bus := decisions.NewBus("n", nil)
	unlisted := func(c *Config) { c.Listing = func(string) Listing { return Unlisted } }
	for name, edits := range map[string][]func(*Config){
		"an earlier release": {answering(func(string, placement.Question) placement.Report {
			return placement.Report{}
		})},
		"not listed": {watching(bus), unlisted},
	} {
		known := new(addresses)
		openPort(t, known, "n2", edits...)
		conn := dialAsk(t, openPort(t, known, "n1"), "n2")
		never := func() { t.Error(name, "begins") }
		err := Watch(conn, placement.Question{Watch: &decisions.Filter{Namespace: "default"}}, never,
			func(*decisions.Batch) { never() })
		if !errors.Is(err, ErrNoWatch) || bus.Listening() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
