package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awaits "github.com/stint-io/stint/internal/testing/await"
)

func TestTheFirstAddressThatAnswersIsAsked(t *testing.T) {
	first, second := newCluster(), newCluster()
	a, b := first.serve(t), second.serve(t)
	const nobody = "127.0.0.1:1"
	for addr, asked := range map[string]*fakeCluster{
		nobody + "," + a + "," + b:                          first,
		" " + strings.TrimPrefix(b, "http://") + "/ , " + a: second,
	} {
		before := asked.count("status")
		if code, _, stderr := stint("status", "--addr", addr); code != 0 || asked.count("status") != before+1 {
			t.Errorf("%s: %d %s", addr, code, stderr)
		}
	}
	_, _, stderr := stint("status", "--addr", nobody+",127.0.0.1:2")
	if !strings.Contains(stderr, "no answer: is stint running at http://127.0.0.1:1 or http://127.0.0.1:2?") {
		t.Errorf("got %s", stderr)
	}
	if code, _, stderr := stint("status", "--addr", a+",gopher://x"); code != 2 {
		t.Errorf("%d %s", code, stderr)
	}
}

// A request that may have been counted is not sent to the next server: it would be counted twice.
func TestWhatMayHaveBeenCountedIsAskedOnce(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		hangUp(w, r)
	}))
	defer server.Close()
	got := explained(remote{Addr: server.URL + "," + server.URL, Timeout: awaits.Patience}, true)
	if asked.Load() != 1 || !strings.Contains(got, remedy) {
		t.Errorf("asked %d times: %s", asked.Load(), got)
	}
}

func TestATimeoutThatIsOverIsRefused(t *testing.T) {
	for _, timeout := range []string{"0s", "-1s"} {
		code, _, stderr := stint("status", "--addr", "127.0.0.1:1", "--timeout="+timeout)
		if want := "--timeout: is " + timeout + ": must be more than 0"; code != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%d %s", code, stderr)
		}
	}
}

// verify reads addresses as all commands do.
func TestVerifyAsksAHostThatHasNoPort(t *testing.T) {
	c := verifyCommand{Addr: []string{"node-1", " ::1", "http://node-2/"}, Policy: "p", Workers: 1, Keys: 1,
		Duration: time.Second}
	if err := c.completeFlags(); err != nil ||
		strings.Join(c.Addr, " ") != "http://node-1:7400 http://[::1]:7400 http://node-2" {
		t.Errorf("%q, %v", c.Addr, err)
	}
	c.Addr = []string{"gopher://x"}
	if err := c.completeFlags(); !isUsage(err) {
		t.Errorf("gopher: %v", err)
	}
}

func TestAHostNeedsNoPort(t *testing.T) {
	for addr, want := range map[string]string{
		"node-1":              "http://node-1:7400",
		"10.0.0.1":            "http://10.0.0.1:7400",
		"::1":                 "http://[::1]:7400",
		"[::1]":               "http://[::1]:7400",
		"node-1:80":           "http://node-1:80",
		"[::1]:80":            "http://[::1]:80",
		"http://limits.local": "http://limits.local",
		"https://limits/":     "https://limits",
		"node-1, node-2:7500": "http://node-1:7400 or http://node-2:7500",
	} {
		if got := (remote{Addr: addr}).where(); got != want {
			t.Errorf("%q is %s, want %s", addr, got, want)
		}
	}
}
