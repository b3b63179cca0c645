package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/stint-io/stint/internal/offline/bench"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

const policies = `policies: {hot: {limits: [{name: day, quota: 100, fixed_window: {period: 24h, anchor: first_hit}}]}}`

// printed returns what a command printed.
func printed(t *testing.T, run func() error) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	err = run()
	os.Stdout = stdout
	if err != nil {
		t.Fatal(err)
	}
	file.Seek(0, io.SeekStart)
	text, _ := io.ReadAll(file)
	return string(text)
}

func startNode(t *testing.T) load {
	t.Helper()
	t.Chdir("../..") // the module that can build a node
	node := testcluster.Run(t, testcluster.Options{Nodes: 1, Direct: true, Redis: true, Policies: policies})
	l := load{Addr: []string{node.Addr(0)}, RedisAddr: []string{node.RedisAddr(0)}, Work: workCheck}
	l.Protocol, l.Callers = overRedis, 8
	return l
}

// One node, over its Redis port: every work is counted exactly, a curve is measured and drawn, and a Redis stands
// beside it.
func TestANode(t *testing.T) {
	l := startNode(t)
	l.Policy = "hot"
	for w, want := range map[work]string{
		workCheck:  `"text":"exact: 1,000 admitted of 3,000 on 10 keys, limit 100 each"`,
		workIncr:   `"text":"3,000 acknowledged`,
		workBucket: `"text":"not audited`,
	} {
		c := runCommand{l}
		c.Work, c.Keys, c.Batch, c.Count = w, 10, 10, 3_000
		if got := printed(t, func() error { return c.Run(t.Context()) }); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", w, got, want)
		}
	}

	points := filepath.Join(t.TempDir(), "points")
	c := curveCommand{Along: "keys=1,20", Series: "<series>", Rounds: 2, load: l}
	c.Duration = 50 * time.Millisecond
	measured := printed(t, func() error { return c.Run(t.Context()) })
	if err := os.WriteFile(points, []byte(measured), 0o600); err != nil || strings.Count(measured, "\n") != 4 {
		t.Fatalf("%v: %s", err, measured)
	}
	chart := printed(t, (&drawCommand{Points: points, Title: "Some & more"}).Run)
	if !strings.Contains(chart, "&lt;series&gt;") || !strings.HasSuffix(strings.TrimSpace(chart), "</svg>") {
		t.Errorf("the chart: %s", chart)
	}

	peer := miniredis.RunT(t)
	both := compareCommand{Peer: peer.Addr(), Rounds: 2, load: l}
	both.Keys, both.Batch, both.Duration = 3, 4, 50*time.Millisecond
	table := printed(t, func() error { return both.Run(t.Context()) })
	for _, row := range []string{"| incr | 1 | 1 | no |", "| incr | 3 | 4 | no |", "| window | 3 | 4 | no |",
		"| bucket | 3 | 1 | no |"} {
		if !strings.Contains(table, row) {
			t.Errorf("no row %s in\n%s", row, table)
		}
	}
	if kept := peer.Keys(); len(kept) > 0 {
		t.Errorf("left on the Redis: %v", kept)
	}
	both.Wait = 1
	if err := both.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "has 0 replicas") {
		t.Errorf("WAIT without replicas: %v", err)
	}
}

// An INCR that was acknowledged and lost fails the run.
func TestACounterThatLosesFailsTheRun(t *testing.T) {
	peer := miniredis.RunT(t)
	p := bench.Plan{KeyPrefix: "k-", Callers: 2, Count: 10}
	port := newRedisPort(p, []string{peer.Addr()}, workIncr)
	report, err := bench.Drive(context.Background(), p, forgetful{port, peer}, nil)
	if err != nil || report.Verdict.OK ||
		!strings.HasPrefix(report.Verdict.Text, "MISCOUNTED: key k-0000000 holds 9 more") {
		t.Errorf("%v: %+v", err, report)
	}
}

type forgetful struct {
	*redisPort
	peer *miniredis.Miniredis
}

func (f forgetful) Judge(l *bench.Ledger, s bench.Span) (bench.Verdict, error) {
	f.peer.Set("k-0000000", "9")
	return f.redisPort.Judge(l, s)
}

func TestCurvesThatCannotBe(t *testing.T) {
	for along, want := range map[string]string{"shards=1,2": "chosen when a cluster is created",
		"x=1": "none of callers", "keys=0": "not a number of keys"} {
		if err := (&curveCommand{Along: along}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", along, err)
		}
	}
	for name, run := range map[string]func(context.Context) error{
		"curve": (&curveCommand{Along: "keys=1"}).Run, "compare": (&compareCommand{}).Run,
	} {
		if err := run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "--rounds: must be at least 1") {
			t.Errorf("%s without a round: %v", name, err)
		}
	}
}
