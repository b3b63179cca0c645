package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/shard"
)

// mixedRelease is a cluster in which one node still runs the former release.
func mixedRelease() *fakeCluster {
	f := newCluster()
	f.upgrade = &stintv1.UpgradeStatusResponse{Level: 1, KnownByAll: 1, Nodes: []*stintv1.NodeLevels{
		{Id: "node-1", Version: "0.2.0", Min: 1, Max: 2, Kept: 1, Alive: true},
		{Id: "node-2", Version: "0.1.0", Min: 1, Max: 1, Kept: 1},
	}}
	return f
}

func TestUpgradeStatusSaysWhereTheClusterIsAndWhatComesNext(t *testing.T) {
	f := mixedRelease()
	transcript(t, "upgrade_mixed", 0, "cluster", "upgrade", "status", "--addr", f.serve(t))
	for _, c := range []struct {
		change func(*stintv1.UpgradeStatusResponse)
		want   string
	}{
		{func(s *stintv1.UpgradeStatusResponse) { s.Pinned = 1 },
			"feature level 1: not all nodes know 2 (pinned at 1)\n"},
		{func(s *stintv1.UpgradeStatusResponse) {
			s.Nodes[1].Max, s.KnownByAll = 2, 2
			s.KnownSince, s.RisesAt = timestamppb.Now(), timestamppb.Now()
		}, "feature level 1: all nodes know 2, the cluster rises when all of them answer\n"},
		{func(s *stintv1.UpgradeStatusResponse) { s.RisingTo, s.Nodes[0].Kept = 2, 2 },
			"feature level 1, rising to 2: waiting for node-2\n"},
		{func(s *stintv1.UpgradeStatusResponse) {
			s.Level, s.KnownByAll, s.Nodes[0].Kept, s.Nodes[1].Max = 2, 2, 2, 2
		}, "feature level 2: the newest that its nodes know\n"},
	} {
		f := mixedRelease()
		c.change(f.upgrade)
		if code, stdout, stderr := stint("cluster", "upgrade", "status", "--addr", f.serve(t)); code != 0 ||
			!strings.HasPrefix(stdout, c.want) {
			t.Errorf("%d %q %q, want %q", code, stdout, stderr, c.want)
		}
	}
	code, stdout, _ := stint("cluster", "upgrade", "status", "-o", "json", "--addr", mixedRelease().serve(t))
	want := `"nodes":[{"id":"node-1","version":"0.2.0","min":1,"max":2,"kept":1,"alive":true}`
	if code != 0 || !strings.Contains(stdout, `{"level":1,"risingTo":0,`) || !strings.Contains(stdout, want) {
		t.Errorf("as JSON: %d %s", code, stdout)
	}
}

func TestUpgradeStatusSaysWhenTheClusterRises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes before it is said
		m := mixedRelease().upgrade
		m.Nodes[1].Max, m.KnownByAll = 2, 2
		m.KnownSince, m.RisesAt = timestamppb.Now(), timestamppb.New(time.Now().Add(10*time.Minute))
		if got, want := levelLine(m), "feature level 1: all nodes know 2, the cluster rises in 10m0s, "+
			"or at `stint cluster upgrade finish`"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestUpgradeFinishWaitsUntilTheLevelIsReached(t *testing.T) {
	f := mixedRelease()
	f.upgrade.KnownByAll, f.upgrade.RisingTo = 2, 2
	steps := 0
	f.stepUpgrade = func(s *stintv1.UpgradeStatusResponse) {
		if steps++; steps == 3 {
			s.Level = 2
		}
	}
	code, stdout, stderr := stint("cluster", "upgrade", "finish", "--addr", f.serve(t))
	if code != 0 || stdout != "the cluster is at feature level 2\n" ||
		stderr != "feature level 1, rising to 2: waiting for node-1, node-2\n" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}

	f = mixedRelease()
	f.err = &shard.Error{Code: shard.Conflict, Field: "level",
		Message: "not all nodes know level 2: node-2 (release 0.1.0) knows 1"}
	code, _, stderr = stint("cluster", "upgrade", "finish", "--addr", f.serve(t))
	if code != 1 || !strings.Contains(stderr, "not all nodes know level 2: node-2 (release 0.1.0) knows 1") {
		t.Errorf("%d %q", code, stderr)
	}
}

func TestUpgradePinSaysWhatItMeans(t *testing.T) {
	f := mixedRelease()
	addr := f.serve(t)
	for level, want := range map[string]string{
		"1": "the cluster does not rise above feature level 1, until stint cluster upgrade pin 0\n",
		"0": "the cluster's feature level is not pinned\n",
	} {
		if code, stdout, stderr := stint("cluster", "upgrade", "pin", level, "--addr", addr); code != 0 ||
			stdout != want {
			t.Errorf("%d %q %q", code, stdout, stderr)
		}
	}
}
