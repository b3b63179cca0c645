package api

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A stranger that makes the server log a thousand messages fills no disk, and the messages left out are counted.
func TestTheServersLogIsBounded(t *testing.T) {
	var text strings.Builder
	now := time.Unix(1, 0)
	b := newServerLog(slog.New(slog.NewTextHandler(&text, nil)), func() time.Time { return now })
	for i := range 1000 {
		fmt.Fprintf(b, "http: line %d\n", i)
	}
	now = now.Add(logLinesPer)
	fmt.Fprintf(b, "http: later\n")
	got := text.String()
	if n := strings.Count(got, "http: line"); n != logLinesMost {
		t.Errorf("%d lines", n)
	}
	if !strings.Contains(got, "lines=990") || !strings.Contains(got, "http: later") {
		t.Errorf("got %s", got)
	}
}

// A load balancer that only checks whether a port is open is not logged. A client that speaks and fails is.
func TestAConnectionWithoutAWordIsNotLogged(t *testing.T) {
	var text strings.Builder
	b := newServerLog(slog.New(slog.NewTextHandler(&text, nil)), time.Now)
	for range 20 {
		fmt.Fprintf(b, "http: TLS handshake error from 10.0.0.1:4711: EOF\n")
	}
	fmt.Fprintf(b, "http: TLS handshake error from 10.0.0.2:4711: remote error: tls: bad certificate\n")
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "bad certificate") {
		t.Errorf("got %s", got)
	}
}
