package node

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// journal collects the logs of a test's nodes. It is shown when the test fails.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func newJournal(t testing.TB) *journal {
	j := new(journal)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the nodes' logs:\n" + j.String())
		}
	})
	return j
}

// Write implements io.Writer.
func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// of returns the logger of one node.
func (j *journal) of(node string) *slog.Logger {
	return slog.New(slog.NewTextHandler(j, nil)).With("on", node)
}

// says counts a node's lines that contain a text.
func (j *journal) says(node, text string) (count int) {
	for line := range strings.Lines(j.String()) {
		if strings.Contains(line, text) && strings.Contains(line, "on="+node) {
			count++
		}
	}
	return count
}
