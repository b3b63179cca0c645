package testcluster

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

func startFakes(t *testing.T, nodes int) *Cluster {
	t.Helper()
	return Run(t, Options{Binary: os.Args[0], Nodes: nodes, Policies: "policies: {}"})
}

// within is patience that a verdict does not depend on.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
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

// talk lets node from send a byte to node to, and wants this result: "echo", "silence" or "broken".
func talk(t *testing.T, c *Cluster, network string, from, to int, want string) {
	t.Helper()
	port, wait := peerPort, await.Patience
	if network != "peer" {
		port = gossipPort
	}
	if want == "silence" {
		wait = silence
	}
	got := ask(t, c, from, "/talk?network="+network+"&to="+hostPort(c.node(to).announced, port)+"&wait="+wait.String())
	if got != want {
		t.Errorf("%s from %v to %v: %s, want %s", network, from, to, got, want)
	}
}

// silence is the time in which nothing comes back.
const silence = 600 * time.Millisecond

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
	t.Parallel()
	c := startFakes(t, 3)
	for _, network := range networks {
		for _, pair := range [][2]int{{0, 1}, {1, 0}, {2, 1}, {0, 2}} {
			talk(t, c, network, pair[0], pair[1], "echo")
		}
		c.Links().Cut(0, 1)
		atN2, atN1 := heard(t, c, 1), heard(t, c, 0)
		talk(t, c, network, 0, 1, "silence")
		if got := heard(t, c, 1); got != atN2 {
			t.Errorf("%s: n2 heard %d bytes through the cut", network, got-atN2)
		}
		talk(t, c, network, 1, 0, "silence") // the echo is cut
		await.Until(t, network+": n1 hears n2", func() bool { return heard(t, c, 0) == atN1+1 })
		for _, pair := range [][2]int{{2, 1}, {0, 2}} {
			talk(t, c, network, pair[0], pair[1], "echo")
		}
		c.Links().Heal()
		talk(t, c, network, 0, 1, "echo")
		if lost := network == "udp"; !lost {
			await.Until(t, network+": what was held by the cut arrives", func() bool {
				return heard(t, c, 1) >= atN2+2
			})
		}
	}
}

func TestANewConnectionHangsInACut(t *testing.T) {
	t.Parallel()
	c := startFakes(t, 2)
	c.Links().Isolate(1)
	for _, network := range networks {
		for _, pair := range [][2]int{{0, 1}, {1, 0}} {
			talk(t, c, network, pair[0], pair[1], "silence")
		}
	}
	if n := heard(t, c, 0) + heard(t, c, 1); n != 0 {
		t.Errorf("%d bytes came through", n)
	}
	c.Links().Rejoin(1)
	for _, network := range networks {
		talk(t, c, network, 0, 1, "echo")
	}
}

func TestADelayIsAddedToEachWay(t *testing.T) {
	t.Parallel()
	c := startFakes(t, 2)
	for _, network := range networks {
		talk(t, c, network, 0, 1, "echo")
		c.Links().Delay(50 * time.Millisecond)
		began := time.Now()
		talk(t, c, network, 0, 1, "echo")
		if took := time.Since(began); took < 100*time.Millisecond {
			t.Errorf("%s: an echo after %v, want 100 ms or more", network, took)
		}
		c.Links().Heal()
	}
}

// A killed node's connections are gone for its peers, and its address refuses until it is back.
func TestAKilledNodeBreaksItsConnections(t *testing.T) {
	t.Parallel()
	c := startFakes(t, 2)
	talk(t, c, "peer", 0, 1, "echo")
	if err := c.Kill(1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		talk(t, c, "peer", 0, 1, "broken")
	}
	if err := c.Restart(1); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	talk(t, c, "peer", 0, 1, "echo")
	if s := c.Surprises(); len(s) > 0 {
		t.Error(s)
	}
}

// A node that does not become ready shows what it waits for.
func TestANodeThatIsNotReadyShowsItsStacks(t *testing.T) {
	t.Parallel()
	ctx, lose := context.WithCancel(t.Context())
	defer lose()
	dir, failed := t.TempDir(), make(chan error, 1)
	go func() {
		_, err := Start(ctx, Options{Binary: os.Args[0], Dir: dir, Nodes: 1, Direct: true,
			Args: []string{"--never-ready"}})
		failed <- err
	}()
	await.Until(t, "the node plays", func() bool {
		log, _ := os.ReadFile(filepath.Join(dir, "n1", "log"))
		return strings.Contains(string(log), "playing n1")
	})
	lose()
	err := await.Receive(t, "the start fails", failed)
	if err == nil || !strings.Contains(err.Error(), "the stacks of n1:") ||
		!strings.Contains(err.Error(), "testcluster.playStint") {
		t.Errorf("it was started with %v", err)
	}
}

func TestAPausedNodeIsSilentUntilItGoesOn(t *testing.T) {
	t.Parallel()
	c := startFakes(t, 2)
	if err := c.Pause(1); err != nil {
		t.Fatal(err)
	}
	talk(t, c, "peer", 0, 1, "silence")
	if err := c.Resume(1); err != nil {
		t.Fatal(err)
	}
	talk(t, c, "peer", 0, 1, "echo")
}

func TestTheLabNoticesHowANodeEnds(t *testing.T) {
	t.Parallel()
	c := startFakes(t, 2)
	if err := c.Terminate(within(t), 0); err != nil {
		t.Error(err)
	}
	(&http.Client{}).Get("http://" + c.Addr(1) + "/exit")
	if code, err := c.AwaitExit(within(t), 1); err != nil || code != 3 {
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
	t.Parallel()
	c := startFakes(t, 1)
	i, err := c.Add()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitReady(within(t), i); err != nil {
		t.Fatal(err)
	}
	talk(t, c, "peer", 0, i, "echo")
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
	t.Parallel()
	c := startFakes(t, 3)
	ctx, calm := context.WithCancel(within(t))
	defer calm()
	var begun atomic.Int64
	count, err := c.Storm(ctx, Storm{Faults: []Fault{FaultKill, FaultPause, FaultCut, FaultRestart, FaultClock},
		AtOnce: 2, Rest: 50 * time.Millisecond, Longest: 600 * time.Millisecond, Seed: 1, Tell: func(string) {
			if begun.Add(1) == 10 {
				calm()
			}
		}})
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
	if err := c.AwaitReady(within(t), 0, 1, 2); err != nil {
		t.Fatal(err)
	}
	for _, network := range networks {
		talk(t, c, network, 0, 1, "echo")
	}
	(&http.Client{}).Get("http://" + c.Addr(1) + "/exit")
	if _, err := c.AwaitExit(within(t), 1); err != nil {
		t.Fatal(err)
	}
	ctx, calm = context.WithCancel(within(t))
	defer calm()
	_, err = c.Storm(ctx, Storm{Faults: []Fault{FaultClock}, Rest: time.Millisecond, Seed: 2, Tell: func(string) {
		calm()
	}})
	if err == nil || !strings.Contains(err.Error(), "n2 ended by itself") {
		t.Errorf("a node ended by itself: %v", err)
	}
}
