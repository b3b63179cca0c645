package peer

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
)

// register is the listings of a test's nodes. A node that is not in it is unlisted.
type register struct {
	mu sync.Mutex
	of map[string]Listing
}

func (r *register) set(node string, l Listing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[node] = l
}

func (r *register) listing(node string) Listing {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.of[node]; ok {
		return l
	}
	return Unlisted
}

// admitted returns the ports of n1, with its register, and of n2, which lists all nodes.
func admitted(t *testing.T, edit ...func(*Config)) (n1, n2 *Port, ofN1 *register) {
	known, key := new(addresses), (*KeyFile)(nil)
	key, _ = openKey(t, line(1))
	ofN1 = &register{of: map[string]Listing{"n1": Listed, "n2": Listed}}
	n1 = openPort(t, known, "n1", append(edit, keyed(key), func(c *Config) { c.Listing = ofN1.listing })...)
	n2 = openPort(t, known, "n2", append(edit, keyed(key))...)
	return n1, n2, ofN1
}

// dials connects a node with another in each of the three ways.
func dials(from *Port, node string) map[string]func() (net.Conn, error) {
	return map[string]func() (net.Conn, error){
		"hop": func() (net.Conn, error) { return from.DialHop(from.stopping, node) },
		"ask": func() (net.Conn, error) { return from.DialAsk(from.stopping, node) },
		"raft": func() (net.Conn, error) {
			id := placement.Replica{Node: from.config.Node, Number: 1}.Name(0)
			return (&Stream{port: from, name: id}).Dial(placement.Replica{Node: node, Number: 1}.Name(0), time.Second)
		},
	}
}

func TestTheTableAdmits(t *testing.T) {
	noLeaks(t)
	n1, n2, ofN1 := admitted(t)
	n1.Stream(0, "n1/0/1")
	n2.Stream(0, "n2/0/1")
	for listing, want := range map[Listing]map[string]Refusal{
		Listed:   {},
		Unlisted: {"hop": NotListed, "raft": NotListed},
		Removed:  {"hop": WasRemoved, "raft": WasRemoved}, // it may ask, and is told
	} {
		ofN1.set("n2", listing)
		for way, dial := range dials(n2, "n1") {
			conn, err := dial()
			if err == nil {
				conn.Close()
			}
			if refusal := want[way]; refusal != 0 && !errors.Is(err, refusal) || refusal == 0 && err != nil {
				t.Errorf("listing %d, %s: %v, want %v", listing, way, err, refusal)
			}
		}
		for way, dial := range dials(n1, "n2") { // and no other node is dialed
			conn, err := dial()
			if err == nil {
				conn.Close()
			}
			if (err == nil) != (want[way] == 0) {
				t.Errorf("listing %d, %s is dialed: %v", listing, way, err)
			}
		}
	}
}

// A node that is not listed hears neither the cluster's id nor a node's.
func TestOthersHearNoIDs(t *testing.T) {
	noLeaks(t)
	n1, n2, ofN1 := admitted(t)
	for listing, told := range map[Listing]bool{Listed: true, Unlisted: false} {
		ofN1.set("n2", listing)
		for what, change := range map[string]func(){
			"the cluster": func() { n2.config.Cluster = "another" },
			"the node": func() {
				n2.config.Cluster = "c1"
				n2.config.Resolve = func(string) (string, bool) { return n1.Addr().String(), true }
			},
		} {
			change()
			secret, to := "c1", "n1"
			if what == "the node" {
				secret, to = "n1", "n3"
			}
			first, err := (&preamble{kind: kindHop, cluster: n2.config.Cluster, from: "n2", to: to}).encode()
			if err != nil {
				t.Fatal(err)
			}
			raw, err := net.Dial("tcp", n1.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = n2.hello(t.Context(), raw, "n1", first)
			raw.Close()
			if err == nil || strings.Contains(err.Error(), `"`+secret+`"`) != told {
				t.Errorf("listing %d, %s: %v", listing, what, err)
			}
		}
	}
}

// When a table that removes a node is learned, its connections end at once, whichever end made them and whatever they
// carry.
func TestRemovalCutsStandingConnections(t *testing.T) {
	noLeaks(t)
	n1, n2, ofN1 := admitted(t)
	n1.Stream(0, "n1/0/1")
	n2.Stream(0, "n2/0/1")
	stand := make(map[string]net.Conn)
	for way, dial := range dials(n2, "n1") {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		stand["incoming "+way] = conn
	}
	for way, dial := range dials(n1, "n2") {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		stand["outgoing "+way] = conn
	}
	await.Until(t, "all connections stand at both ends", func() bool {
		return len(n1.allPeerConns()) == 6 && len(n2.allPeerConns()) == 6
	})
	n1.Recheck()
	if len(n1.allPeerConns()) != 6 {
		t.Error("connections of listed nodes are cut")
	}
	ofN1.set("n2", Removed)
	n1.Recheck()
	for what, conn := range stand {
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, conn)
			conn.Close()
			if err == nil {
				err = io.EOF
			}
			ended <- err
		}()
		await.Receive(t, what+" ends", ended)
	}
}

// A table that is learned between the preamble and the registration of a connection is not missed.
func TestAConnectionThatIsMadeDuringARemovalDoesNotStand(t *testing.T) {
	noLeaks(t)
	looks := make(map[string]int)
	var mu sync.Mutex
	once := func(node string) Listing { // it is listed at the first look only
		mu.Lock()
		defer mu.Unlock()
		if looks[node]++; looks[node] > 2 {
			return Removed
		}
		return Listed
	}
	for way := range dials(nil, "n1") {
		known := new(addresses)
		key, _ := openKey(t, line(1))
		n1 := openPort(t, known, "n1", keyed(key), func(c *Config) { c.Listing = once })
		n2 := openPort(t, known, "n2", keyed(key))
		n1.Stream(0, "n1/0/1")
		mu.Lock()
		clear(looks)
		mu.Unlock()
		conn, err := dials(n2, "n1")[way]()
		if way == "ask" && err == nil { // each answer goes by what the table says then
			conn.Close()
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		conn.SetDeadline(time.Now().Add(await.Patience))
		if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: it stands", way)
		}
		conn.Close()
	}
}
