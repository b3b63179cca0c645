package raftfsm

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAPeerThatIsDownDoesNotFillTheLog(t *testing.T) {
	var out bytes.Buffer
	var shared repeats
	one, other := slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewTextHandler(&out, nil))
	for range 1000 {
		raftLogger{one, &shared}.Error("failed to heartbeat to", "peer", "n2/0/1")
		raftLogger{other, &shared}.Error("failed to heartbeat to", "peer", "n2/1/1")
	}
	raftLogger{one, &shared}.Error("failed to take snapshot")
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "snapshot") {
		t.Errorf("%d lines of two texts:\n%s", n, out.String())
	}
	if unsaid, due := shared.due("raft: failed to heartbeat to", time.Now().Add(repeatEvery)); !due || unsaid != 1999 {
		t.Errorf("later the text is due %v, %d lines unsaid", due, unsaid)
	}
}
