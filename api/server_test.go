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
	b := &boundedLog{logger: slog.New(slog.NewTextHandler(&text, nil)), now: func() time.Time { return now }}
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
