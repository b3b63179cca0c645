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
	shared := newRepeatLimit()
	one, other := slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewTextHandler(&out, nil))
	for range 1000 {
		newRaftLogger(one, shared).Error("failed to heartbeat to", "peer", "n2/0/1")
		newRaftLogger(other, shared).Error("failed to heartbeat to", "peer", "n2/1/1")
	}
	newRaftLogger(one, shared).Error("failed to take snapshot")
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "snapshot") {
		t.Errorf("%d lines of two texts:\n%s", n, out.String())
	}
	if unsaid, due := shared.Allow("failed to heartbeat to", time.Now().Add(shared.Per)); !due || unsaid != 1999 {
		t.Errorf("later the text is due %v, %d lines unsaid", due, unsaid)
	}
}
