//go:build chaos && upgrade

package chaos

import (
	"context"
	"fmt"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/shard"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The release before this one, and its commit in the repository's history.
const (
	previousRelease = "0.1.0"
	previousCommit  = "061d6c2"
)

// previousTree returns the source of the previous release, from the repository's history, and the repository's root.
func previousTree(t *testing.T) (tree, root string) {
	t.Helper()
	if out, err := exec.Command("git", "cat-file", "-e", previousCommit+"^{commit}").CombinedOutput(); err != nil {
		t.Fatalf("commit %s, which is release %s, is not in this repository's history, and the upgrade from it cannot be "+
			"tested: fetch the whole history (git fetch --unshallow). git: %v %s", previousCommit, previousRelease, err, out)
	}
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, tree = strings.TrimSpace(string(top)), filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "tree.tar")
	mustRun(t, root, "git", "archive", "-o", archive, previousCommit)
	mustRun(t, tree, "tar", "-xf", archive)
	return tree, root
}

func mustRun(t *testing.T, dir string, arguments ...string) {
	t.Helper()
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", arguments, err, out)
	}
}

// TestUpgradeWritesWhatThePreviousReleaseReads: in a mixed cluster, this release writes a log and a snapshot of which the
// code of the previous release reads every record.
func TestUpgradeWritesWhatThePreviousReleaseReads(t *testing.T) {
	tree, root := previousTree(t)
	there := filepath.Join(tree, "shard")
	releases := filepath.Join(there, "testdata", "releases")
	if err := os.MkdirAll(releases, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		"release_story_test.go":                     "release_story_test.go",
		"testdata/releases/reads_mixed_test.go.txt": "reads_mixed_test.go",
	} {
		text, err := os.ReadFile(filepath.Join(root, "shard", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(there, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, root, "go", "test", "-vet=off", "-count=1", "-run", "^TestEveryRelease", "./shard", "-release.mixed="+releases)
	mustRun(t, tree, "go", "test", "-vet=off", "-count=1", "-run", "^Test010Reads", "./shard")
}

// levels is the output of `stint upgrade status`.
type levels struct {
	Level, KnownByAll uint32
	Nodes             []struct {
		ID        string
		Max, Kept uint32
		Alive     bool
	}
}

func levelsOf(ctx context.Context, address string) (l levels, err error) {
	err = askCluster(ctx, address, "UpgradeStatus", &l)
	return l, err
}

// awaitLevels asks a node until the levels that it reports are as they should be.
func awaitLevels(ctx context.Context, address string, is func(levels) bool) error {
	var l levels
	var err error
	for {
		if l, err = levelsOf(ctx, address); err == nil && is(l) {
			return nil
		}
		if late := pause(ctx, 100*time.Millisecond); late != nil {
			return fmt.Errorf("%w: the levels are %+v (%v)", late, l, err)
		}
	}
}

// upgrade is a cluster on its way from one release to the next.
type upgrade struct {
	*testing.T
	c        *testcluster.Cluster
	old, new string
	mixed    time.Duration // how long nodes of both releases ran
	restarts int
}

// runs restarts a node in order with another binary.
func (u *upgrade) runs(ctx context.Context, i int, binary string) error {
	u.restarts++
	u.c.UseBinary(i, binary)
	return restart(ctx, u.c, i)
}

// roll upgrades all nodes, one at a time, takes the second one back once, and finishes the level.
func (u *upgrade) roll(ctx context.Context) error {
	began := time.Now()
	for _, step := range []struct {
		node   int
		binary string
	}{{0, u.new}, {1, u.new}, {1, u.old}, {1, u.new}, {2, u.new}} {
		if err := u.runs(ctx, step.node, step.binary); err != nil {
			return err
		}
		if step.node == 2 {
			break
		}
		if err := pause(ctx, 12*time.Second); err != nil { // longer than an owner's interval between two fingerprints
			return err
		}
	}
	u.mixed = time.Since(began)
	all := func(l levels) bool {
		return l.Level == 1 && l.KnownByAll == uint32(shard.LevelNewest) && len(l.Nodes) == 3
	}
	if err := awaitLevels(within(u.T, 20*time.Second), u.c.Addr(1), all); err != nil {
		return fmt.Errorf("all nodes run the new release: %w", err)
	}
	if err := stint(ctx, "upgrade", "finish", "--addr", u.c.Addr(2)); err != nil {
		return err
	}
	for i := range u.c.Len() {
		risen := func(l levels) bool { return l.Level == uint32(shard.LevelNewest) }
		if err := awaitLevels(within(u.T, 20*time.Second), u.c.Addr(i), risen); err != nil {
			return fmt.Errorf("the level is finished: %w", err)
		}
	}
	for i := range u.c.Len() { // the cluster at the new level is restarted
		if err := u.runs(ctx, i, u.new); err != nil {
			return err
		}
	}
	return nil
}

// TestUpgradeFromThePreviousRelease: a cluster of the previous release is upgraded node by node under load. Both releases run
// side by side, a node goes back, the level is finished, and no client is affected. Then the previous release is refused.
func TestUpgradeFromThePreviousRelease(t *testing.T) {
	tree, _ := previousTree(t)
	u := &upgrade{T: t, old: filepath.Join(tree, "stint-"+previousRelease), new: program(t)}
	mustRun(t, tree, "go", "build", "-trimpath", "-buildvcs=false", "-o", u.old, "./cmd/stint")
	u.c = testcluster.Run(t, testcluster.Options{Binary: u.old, Nodes: 3, Dir: t.TempDir(), Policies: clusterPolicies, GossipKey: true})
	plan := politeClients(seed(t))
	// Below level 2, nobody keeps the answers to requests without an id: a copy of one may be told of the moment that it arrives.
	r := mustCount(t, u.c, plan, u.roll)
	failsNobody(t, r)
	t.Logf("%d requests, %d failed; %d planned restarts, %v with both releases; limit %d, admitted %d; %d keys full, %d lost, "+
		"%d doubled; %d copies told of another moment", r.Operations, max(r.Missed, r.Unknown), u.restarts,
		u.mixed.Round(time.Second), r.Limit, r.Admitted, r.KeysFull, r.Lost, r.Doubled, r.Unnumbered)
	u.refusesTheWayBack()
	u.admitsNoStranger()
}

// refusesTheWayBack checks that the previous release does not start on a directory of the new level, and does not change it.
func (u *upgrade) refusesTheWayBack() {
	u.Helper()
	ctx := within(u.T, 60*time.Second)
	if err := u.c.Terminate(ctx, 2); err != nil {
		u.Fatal(err)
	}
	u.c.UseBinary(2, u.old)
	if err := u.c.Restart(2); err != nil {
		u.Fatal(err)
	}
	u.c.MayEnd(2)
	code, err := u.c.AwaitExit(ctx, 2)
	if err != nil || code == 0 {
		u.Fatalf("release %s on a directory of the newest level: exit code %d, %v", previousRelease, code, err)
	}
	said := u.c.Logs()
	if want := "reading its identity: json: cannot unmarshal number into Go struct field identityRecord.Ready of type bool"; !strings.Contains(said, want) {
		u.Errorf("release %s on a directory of the newest level does not say %q", previousRelease, want)
	}
	u.c.UseBinary(2, u.new)
	if err := u.c.Restart(2); err != nil {
		u.Fatal(err)
	}
	if err := u.c.AwaitReady(ctx); err != nil {
		u.Error(err)
	}
}

// admitsNoStranger checks that a node of the previous release with an empty directory is not registered and gets nothing. The
// cluster reports it, and continues.
func (u *upgrade) admitsNoStranger() {
	u.Helper()
	i, err := u.c.Add() // with the binary that the cluster was started with
	if err != nil {
		u.Fatal(err)
	}
	want := fmt.Sprintf("node %s knows feature level 1 and the cluster is at %d", u.c.Name(i), shard.LevelNewest)
	ctx := within(u.T, 60*time.Second)
	for said := ""; !strings.Contains(said, want); {
		out, err := exec.CommandContext(ctx, u.new, "status", "--addr", u.c.Addr(0)).CombinedOutput()
		said = string(out)
		if ctx.Err() != nil {
			u.Fatalf("a node of release %s joins: status does not say %q: %v\n%s", previousRelease, want, err, said)
		}
	}
	s, err := statusOf(ctx, u.c.Addr(0))
	if err != nil {
		u.Fatal(err)
	}
	for _, n := range s.Nodes {
		if n.ID == u.c.Name(i) {
			u.Errorf("a node of release %s is registered at the newest level", previousRelease)
		}
	}
	if err := awaitStatus(u.T, u.c.Addr(0), 30*time.Second, votersOn(u.c.Name(0), u.c.Name(1), u.c.Name(2))); err != nil {
		u.Error(err) // a shard may still be moving to the node that was restarted last
	}
}
