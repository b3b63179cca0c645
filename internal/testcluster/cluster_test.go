package testcluster

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func startFakes(t *testing.T, nodes int) *Cluster {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(within(t, 20*time.Second), Options{Binary: binary, Nodes: nodes, Dir: t.TempDir(), Policies: "policies: {}"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func ask(t *testing.T, c *Cluster, i int, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + c.Addr(i) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// talk lets node from send a byte to node to and returns the result.
func talk(t *testing.T, c *Cluster, network string, from, to int) string {
	t.Helper()
	port := peerPort
	if network != "peer" {
		port = gossipPort
	}
	return ask(t, c, from, "/talk?network="+network+"&to="+hostPort(c.node(to).announced, port))
}

func heard(t *testing.T, c *Cluster, i int) int {
	t.Helper()
	n, err := strconv.Atoi(ask(t, c, i, "/heard"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var networks = []string{"peer", "gossip", "udp"}

// A cut from n1 to n2 holds what n1 sends, whichever node dialed, and nothing else: n1 still hears n2, and n2 hears n3.
func TestACutIsOneWay(t *testing.T) {
	c := startFakes(t, 3)
	for _, network := range networks {
		for _, pair := range [][2]int{{0, 1}, {1, 0}, {2, 1}, {0, 2}} {
			if got := talk(t, c, network, pair[0], pair[1]); got != "echo" {
				t.Fatalf("%s from %v to %v before the cut: %s", network, pair[0], pair[1], got)
			}
		}
		c.Links().Cut(0, 1)
		atN2, atN1 := heard(t, c, 1), heard(t, c, 0)
		if got := talk(t, c, network, 0, 1); got != "silence" {
			t.Errorf("%s: n1 to n2: %s", network, got)
		}
		if got := heard(t, c, 1); got != atN2 {
			t.Errorf("%s: n2 heard %d bytes through the cut", network, got-atN2)
		}
		if got := talk(t, c, network, 1, 0); got != "silence" {
			t.Errorf("%s: n2 to n1, whose echo is cut: %s", network, got)
		}
		if got := heard(t, c, 0); got != atN1+1 {
			t.Errorf("%s: n1 heard %d bytes of n2, want 1", network, got-atN1)
		}
		for _, pair := range [][2]int{{2, 1}, {0, 2}} {
			if got := talk(t, c, network, pair[0], pair[1]); got != "echo" {
				t.Errorf("%s from %v to %v is not cut: %s", network, pair[0], pair[1], got)
			}
		}
		c.Links().Heal()
		if got := talk(t, c, network, 0, 1); got != "echo" {
			t.Errorf("%s: n1 to n2 after the cut: %s", network, got)
		}
		if lost := network == "udp"; !lost && heard(t, c, 1) < atN2+2 {
			t.Errorf("%s: what was held by the cut never arrived", network)
		}
	}
}

func TestANewConnectionHangsInACut(t *testing.T) {
	c := startFakes(t, 2)
	c.Links().Isolate(1)
	for _, network := range networks {
		for _, pair := range [][2]int{{0, 1}, {1, 0}} {
			if got := talk(t, c, network, pair[0], pair[1]); got != "silence" {
				t.Errorf("%s from %v to %v: %s", network, pair[0], pair[1], got)
			}
		}
	}
	if n := heard(t, c, 0) + heard(t, c, 1); n != 0 {
		t.Errorf("%d bytes came through", n)
	}
	c.Links().Rejoin(1)
	for _, network := range networks {
		if got := talk(t, c, network, 0, 1); got != "echo" {
			t.Errorf("%s after the cut: %s", network, got)
		}
	}
}

func TestADelayIsAddedToEachWay(t *testing.T) {
	c := startFakes(t, 2)
	for _, network := range networks {
		talk(t, c, network, 0, 1)
		c.Links().Delay(50 * time.Millisecond)
		began := time.Now()
		if got := talk(t, c, network, 0, 1); got != "echo" || time.Since(began) < 100*time.Millisecond {
			t.Errorf("%s: %s after %v, want an echo after 100 ms", network, got, time.Since(began))
		}
		c.Links().Heal()
	}
}

// A killed node's connections are gone for its peers, and its address refuses until it is back.
func TestAKilledNodeBreaksItsConnections(t *testing.T) {
	c := startFakes(t, 2)
	talk(t, c, "peer", 0, 1)
	if err := c.Kill(1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := talk(t, c, "peer", 0, 1); got != "broken" {
			t.Errorf("a connection to a killed node: %s", got)
		}
	}
	if err := c.Restart(1); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitReady(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := talk(t, c, "peer", 0, 1); got != "echo" {
		t.Errorf("after the restart: %s", got)
	}
	if s := c.Surprises(); len(s) > 0 {
		t.Error(s)
	}
}

// A node that does not become ready shows what it waits for.
func TestANodeThatIsNotReadyShowsItsStacks(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = Start(ctx, Options{Binary: binary, Dir: t.TempDir(), Nodes: 1, Direct: true, Args: []string{"--never-ready"}})
	if err == nil || !strings.Contains(err.Error(), "the stacks of n1:") || !strings.Contains(err.Error(), "testcluster.playStint") {
		t.Errorf("it was started with %v", err)
	}
}

func TestAPausedNodeIsSilentUntilItGoesOn(t *testing.T) {
	c := startFakes(t, 2)
	if err := c.Pause(1); err != nil {
		t.Fatal(err)
	}
	if got := talk(t, c, "peer", 0, 1); got != "silence" {
		t.Errorf("a paused node: %s", got)
	}
	if err := c.Resume(1); err != nil {
		t.Fatal(err)
	}
	if got := talk(t, c, "peer", 0, 1); got != "echo" {
		t.Errorf("afterwards: %s", got)
	}
}

func TestTheLabNoticesHowANodeEnds(t *testing.T) {
	c := startFakes(t, 2)
	if err := c.Terminate(within(t, 5*time.Second), 0); err != nil {
		t.Error(err)
	}
	(&http.Client{}).Get("http://" + c.Addr(1) + "/exit")
	if code, err := c.AwaitExit(within(t, 5*time.Second), 1); err != nil || code != 3 {
		t.Errorf("exit code %d, %v; want 3", code, err)
	}
	if s := c.Surprises(); len(s) != 1 || !strings.Contains(s[0], "n2 ended by itself: exit status 3") {
		t.Errorf("surprises: %q", s)
	}
	if !strings.Contains(c.Logs(), "playing n2") {
		t.Errorf("the logs do not hold what the node wrote:\n%s", c.Logs())
	}
}

func TestAddedNodesAndHurtFiles(t *testing.T) {
	c := startFakes(t, 1)
	i, err := c.Add()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitReady(within(t, 10*time.Second), i); err != nil {
		t.Fatal(err)
	}
	if got := talk(t, c, "peer", 0, i); got != "echo" {
		t.Errorf("the first node to the added one: %s", got)
	}
	if _, err := c.Corrupt(i, "*.log", 1); err == nil {
		t.Error("the files of a running node were hurt")
	}
	if err := c.Kill(i); err != nil {
		t.Fatal(err)
	}
	if files, err := c.Corrupt(i, "*.log", 100); err != nil || files != 1 {
		t.Errorf("%d files hurt, %v", files, err)
	}
	text, err := os.ReadFile(filepath.Join(c.Dir(i), "000001.log"))
	if err != nil || text[32] != 0 || text[33] != 0x10 || len(text) != 100 {
		t.Errorf("hurt file: %v, %v", text, err)
	}
	if err := c.Wipe(i); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Dir(i)); !os.IsNotExist(err) {
		t.Errorf("the data is still there: %v", err)
	}
}

// After a storm every node runs and every link is whole; a node that ends by itself fails the storm.
func TestAStormEndsInCalm(t *testing.T) {
	c := startFakes(t, 3)
	count, err := c.Storm(within(t, 3*time.Second), Storm{Faults: []Fault{FaultKill, FaultPause, FaultCut, FaultRestart,
		FaultClock}, AtOnce: 2, Rest: 50 * time.Millisecond, Longest: 600 * time.Millisecond, Seed: 1})
	if err != nil {
		t.Error(err)
	}
	total := 0
	for _, n := range count {
		total += n
	}
	if total < 4 {
		t.Errorf("%v is no storm", count)
	}
	if err := c.AwaitReady(within(t, 10*time.Second), 0, 1, 2); err != nil {
		t.Fatal(err)
	}
	for _, network := range networks {
		if got := talk(t, c, network, 0, 1); got != "echo" {
			t.Errorf("%s after the storm: %s", network, got)
		}
	}
	(&http.Client{}).Get("http://" + c.Addr(1) + "/exit")
	if _, err := c.AwaitExit(within(t, 5*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	_, err = c.Storm(within(t, time.Second), Storm{Faults: []Fault{FaultClock}, Rest: time.Millisecond, Seed: 2})
	if err == nil || !strings.Contains(err.Error(), "n2 ended by itself") {
		t.Errorf("a node ended by itself: %v", err)
	}
}
