package peer

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/memnet"
)

// witness is a node, n1, and another one, n2, which leads a group on it: n2's connections with n1 stand.
type witness struct {
	net    *memnet.Net
	layer  *memnet.Layer // of n2
	port   *Port         // of n1
	other  *Port         // n2
	raft   net.Conn      // n2 has dialed them
	ask    net.Conn
	hops   *hop.Hop
	silent atomic.Int32 // how often n1 was told so of n2
}

func onNet(layer *memnet.Layer) func(*Config) {
	return func(c *Config) {
		c.Listener = layer
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			deadline, _ := ctx.Deadline()
			return layer.Dial(addr, time.Until(deadline))
		}
		c.Resolve = func(node string) (string, bool) { return node, true }
		c.Decide = allow
		c.Answer = func(string, placement.Question) placement.Report { return placement.Report{} }
	}
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{net: memnet.New()}
	w.net.Delay("", "", time.Millisecond)
	w.layer = w.net.Listen("n2")
	w.port = openPort(t, new(addresses), "n1", onNet(w.net.Listen("n1")), func(c *Config) {
		c.Silent = func(string) { w.silent.Add(1) }
	})
	w.other = openPort(t, new(addresses), "n2", onNet(w.layer))
	own := w.port.Stream(1, "n1/1/1")
	w.raft = dialed(t, w.other.Stream(1, "n2/1/1"), "n1/1/1")
	accepted, err := own.Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() { // as raft does
		io.Copy(io.Discard, accepted)
		accepted.Close()
	}()
	if w.ask, err = w.other.DialAsk(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	w.asks(t, placement.Question{Life: "one"})
	w.hops = hop.New(hop.Near, w.other.DialHop)
	t.Cleanup(w.hops.Close)
	wantAllowed(t, "forwarded", w.hops.Submit(t.Context(), "n1", 0, 1, oneCheck))
	time.Sleep(2 * diesAfter)
	return w
}

func (w *witness) asks(t *testing.T, q placement.Question) {
	t.Helper()
	if _, err := Ask(w.ask, q); err != nil {
		t.Fatal(err)
	}
}

// die is what the kernel does for n2 when its process dies.
func (w *witness) die() {
	w.net.Isolate("n2")
	w.layer.Close()
}

// witnessed checks what n1 says of n2 after something was done: whether its connections have ended as those of a
// process that has died, and whether it is dead.
func witnessed(t *testing.T, what string, silent, dead bool, do func(t *testing.T, w *witness)) {
	t.Helper()
	t.Log(what)
	synctest.Test(t, func(t *testing.T) {
		w := newWitness(t)
		do(t, w)
		time.Sleep(refusesWithin)
		if got := w.silent.Load() > 0; got != silent {
			t.Errorf("%s: fallen silent: %v", what, got)
		}
		if got := w.port.IsDead("n2"); got != dead {
			t.Errorf("%s: dead: %v", what, got)
		}
		w.net.Heal()
	})
}

// The process of a node has died when all its connections have been ended at once and it refuses new ones. Each thing
// that speaks against it is enough.
func TestWhatSaysThatAProcessHasDied(t *testing.T) {
	witnessed(t, "it died", true, true, func(_ *testing.T, w *witness) { w.die() })
	witnessed(t, "it lives", false, false, func(*testing.T, *witness) {})
	witnessed(t, "the link is broken: it looks the same from here", true, true, func(_ *testing.T, w *witness) {
		w.net.Break("n1", "n2")
	})
	witnessed(t, "packets are dropped", false, false, func(_ *testing.T, w *witness) {
		w.net.Cut("n2", "n1")
		w.net.Cut("n1", "n2")
	})
	witnessed(t, "its connections end, and then packets are dropped", true, false, func(_ *testing.T, w *witness) {
		w.net.Break("n1", "n2")
		synctest.Wait()
		w.net.Cut("n1", "n2")
		w.net.Mend("n1", "n2") // this ends the break, too
		w.net.Cut("n1", "n2")
	})
	witnessed(t, "one of its connections stands", false, false, func(_ *testing.T, w *witness) {
		w.raft.Close()
		w.hops.Close()
		w.layer.Close()
	})
	witnessed(t, "its connections end one by one", false, false, func(_ *testing.T, w *witness) {
		w.raft.Close()
		time.Sleep(2 * diesWithin)
		w.die()
	})
	witnessed(t, "one ended long before", true, true, func(_ *testing.T, w *witness) {
		w.raft.Close()
		time.Sleep(2 * diesAfter)
		w.die()
	})
	witnessed(t, "it has said goodbye", true, false, func(t *testing.T, w *witness) {
		w.asks(t, placement.Question{Life: "one", Stopping: true})
		w.die()
	})
	witnessed(t, "it has said goodbye, and asks something else", true, false, func(t *testing.T, w *witness) {
		w.asks(t, placement.Question{Life: "one", Stopping: true})
		w.asks(t, placement.Question{Died: "n3"})
		w.die()
	})
	witnessed(t, "it has said goodbye, and another process took its place", true, true, func(t *testing.T, w *witness) {
		w.asks(t, placement.Question{Life: "one", Stopping: true})
		w.asks(t, placement.Question{Life: "two"})
		w.die()
	})
	witnessed(t, "it takes connections", true, false, func(_ *testing.T, w *witness) {
		w.net.Break("n1", "n2")
		synctest.Wait()
		w.net.Mend("n1", "n2")
	})
	witnessed(t, "this node has ended them", false, false, func(_ *testing.T, w *witness) {
		for _, s := range w.port.allPeerConns() {
			s.cut()
		}
		synctest.Wait()
		w.die()
	})
	witnessed(t, "it has been restarted, and has connected", true, false, func(t *testing.T, w *witness) {
		w.die()
		synctest.Wait()
		w.net.Rejoin("n2")
		w.layer = w.net.Listen("n2") // its process does not accept yet, but it dials
		again, err := w.other.DialAsk(t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		w.ask = again
		w.layer.Close()
	})
}

// A node that this one has never heard of is not dead, though no process answers there.
func TestANodeWithoutConnectionsIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		p := openPort(t, new(addresses), "n1", onNet(n.Listen("n1")))
		if p.IsDead("n9") {
			t.Error("it is dead")
		}
	})
}
