package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

type secretStatus struct {
	placement.Secrets
	unconfirmed []string
}

// fakeSecrets is a cluster with a rotation that goes one step further with each look.
type fakeSecrets struct {
	mu     sync.Mutex
	status secretStatus
	looks  int
	step   func(looks int, s *secretStatus)
	err    error
}

func (f *fakeSecrets) Secrets(context.Context) (*placement.Secrets, []string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looks++; f.step != nil {
		f.step(f.looks, &f.status)
	}
	secrets := &placement.Secrets{Seals: f.status.Seals, Sealing: slices.Clone(f.status.Sealing)}
	return secrets, f.status.unconfirmed, f.err
}

func (f *fakeSecrets) Rotate(context.Context, string) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	number := uint32(len(f.status.Sealing) + 1)
	f.status.Sealing = append(f.status.Sealing, placement.SealingSecret{Number: number, Made: 1_700_000_000e6})
	f.status.unconfirmed = []string{"node-2"}
	return number, f.err
}

func (f *fakeSecrets) DropOld(context.Context, string) ([]uint32, error) {
	return []uint32{1, 2}, f.err
}

func newSecrets() *fakeSecrets {
	return &fakeSecrets{status: secretStatus{
		Secrets: placement.Secrets{Seals: 1, Sealing: []placement.SealingSecret{{Number: 1}}}}}
}

func TestSecretsAreListedWithoutThemselves(t *testing.T) {
	f := newSecrets()
	f.status.Secrets = placement.Secrets{Seals: 2, Sealing: []placement.SealingSecret{
		{Number: 1, Ends: 1_702_678_400e6}, {Number: 2, Made: 1_600_000_000e6}, {Number: 3, Made: 1_700_000_000e6}}}
	f.status.unconfirmed = []string{"node-2", "node-3"}
	c := newCluster()
	c.secrets = f
	addr := c.serve(t)
	code, stdout, stderr := stint("cluster", "secret", "--addr", addr)
	want := "NUMBER  MADE                  STATE  UNTIL\n" +
		"1       with the cluster      opens  " + inSeconds(1_702_678_400) + "\n" +
		"2       " + inSeconds(1_600_000_000) + "  seals  -\n" +
		"3       " + inSeconds(1_700_000_000) + "  waits  -\n" +
		"the rotation waits for node-2, node-3\n"
	if code != 0 || stdout != want {
		t.Errorf("%d %q %q, want %q", code, stdout, stderr, want)
	}
	if code, same, _ := stint("cluster", "secret", "list", "--addr", addr); code != 0 || same != stdout {
		t.Errorf("%d %q", code, same)
	}
	if code, stdout, _ := stint("cluster", "secret", "-o", "json", "--addr", addr); code != 0 ||
		!strings.Contains(stdout, `"waitingFor":["node-2","node-3"]`) {
		t.Errorf("%d %q", code, stdout)
	}
}

func inSeconds(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

func TestARotationIsAwaited(t *testing.T) {
	f := newSecrets()
	f.step = func(looks int, s *secretStatus) {
		switch looks {
		case 2:
			s.Seals, s.unconfirmed = 2, nil
		case 3:
			s.Sealing[0].Ends = 1_702_678_400e6
		}
	}
	c := newCluster()
	c.secrets = f
	code, stdout, stderr := stint("cluster", "secret", "rotate", "--addr", c.serve(t))
	if code != 0 || stdout != "secret 2 seals; the former one opens ids for 31 days\n" ||
		stderr != "the rotation waits for node-2\nthe nodes take the next step\n" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}

	c = newCluster()
	c.secrets = newSecrets()
	code, _, stderr = stint("cluster", "secret", "rotate", "--wait", "10ms", "--addr", c.serve(t))
	if code != 1 ||
		!strings.Contains(stderr, "after 10ms the rotation waits for node-2; it goes on: see stint cluster secret") {
		t.Errorf("%d %q", code, stderr)
	}
}

func TestOldSecretsAreDropped(t *testing.T) {
	f := newSecrets()
	c := newCluster()
	c.secrets = f
	addr := c.serve(t)
	if code, stdout, stderr := stint("cluster", "secret", "drop-old", "--addr", addr); code != 0 ||
		stdout != "dropped 1, 2: within a second no node settles what is sealed with it\n" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	f.err = &shard.Error{Code: shard.Conflict, Message: "the cluster has one sealing secret: " +
		"rotate it, then drop the old one"}
	if code, _, stderr := stint("cluster", "secret", "drop-old", "--addr", addr); code != 1 ||
		!strings.Contains(stderr, "rotate it, then drop the old one") {
		t.Errorf("%d %q", code, stderr)
	}
}
