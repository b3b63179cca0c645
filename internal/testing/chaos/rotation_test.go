//go:build chaos

package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRotation: the cluster key is replaced while the nodes run, in three steps; in each of them a node is restarted.
// All processes read one file.
func TestRotation(t *testing.T) {
	c := newCluster(t)
	old, err := os.ReadFile(c.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	old = bytes.TrimSpace(old)
	secret := make([]byte, 32)
	rand.Read(secret)
	fresh := []byte(hex.EncodeToString(secret))
	r := mustVerify(t, c, politeClients(seed(t)), func(ctx context.Context) error {
		for i, lines := range [][][]byte{{old, fresh}, {fresh, old}, {fresh}} {
			name := c.KeyFile() + ".new"
			if err := os.WriteFile(name, bytes.Join(lines, []byte("\n")), 0o600); err != nil {
				return err
			}
			if err := os.Rename(name, c.KeyFile()); err != nil {
				return err
			}
			if err := restart(ctx, c, i); err != nil {
				return err
			}
			if err := awaitStatus(t, c.Addr(0), 30*time.Second, rotated(c.Len(), keyNames(t, lines...))); err != nil {
				return err
			}
		}
		return nil
	})
	failsNobody(t, r)
	if logs := c.Logs(); strings.Contains(logs, string(old)) || strings.Contains(logs, string(fresh)) {
		t.Error("the key is in a log")
	}
}

// rotated says what is missing until all nodes have these lines in force, in this order.
func rotated(nodes int, lines []string) func(status) string {
	return func(s status) string {
		if len(s.Nodes) != nodes {
			return fmt.Sprintf("%d nodes", len(s.Nodes))
		}
		for _, n := range s.Nodes {
			if !slices.Equal(n.KeyLines, lines) {
				return fmt.Sprintf("%s has %v, want %v", n.ID, n.KeyLines, lines)
			}
		}
		if len(s.Problems) > 0 {
			return strings.Join(s.Problems, "; ")
		}
		return ""
	}
}
