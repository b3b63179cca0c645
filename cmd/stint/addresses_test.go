package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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
	if !strings.Contains(stderr, "nobody answers: is stint running at http://127.0.0.1:1 or http://127.0.0.1:2?") {
		t.Errorf("got %s", stderr)
	}
	if code, _, stderr := stint("status", "--addr", a+",gopher://x"); code != 2 {
		t.Errorf("%d %s", code, stderr)
	}
}

// What may have been counted is not asked of the next server: it would be counted twice.
func TestWhatMayHaveBeenCountedIsAskedOnce(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		hangUp(w, r)
	}))
	defer server.Close()
	got := explained(remote{Addr: server.URL + "," + server.URL, Timeout: time.Second}, true)
	if asked.Load() != 1 || !strings.Contains(got, remedy) {
		t.Errorf("asked %d times: %s", asked.Load(), got)
	}
}
