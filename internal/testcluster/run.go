package testcluster

import (
	"context"
	"time"
)

// TB is the part of testing.TB that a test's cluster needs. `stint verify` must not link the package testing.
type TB interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Failed() bool
	Log(args ...any)
	Fatal(args ...any)
}

// patience is how long the nodes of a test may take to be ready. It says nothing about how fast they should be.
const patience = 2 * time.Minute

// Prepare is New for a test: the cluster is closed with it, and if the test failed it shows the logs of the nodes. Options without
// a binary or a directory get those of Binary and of the test.
func Prepare(t TB, o Options) *Cluster {
	t.Helper()
	var err error
	if o.Binary == "" {
		if o.Binary, err = Binary(); err != nil {
			t.Fatal(err)
		}
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return c
}

// Run is Start for a test: see Prepare.
func Run(t TB, o Options) *Cluster {
	t.Helper()
	c := Prepare(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.begin(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}
