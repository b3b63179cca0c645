package raftfsm

import (
	"sync"
	"testing"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memfs"
)

// A node that its slow disk keeps from founding a shard still says its level, opens other replicas, and creates the
// same one only once.
func TestACreationOnASlowDiskHoldsUpNothingElse(t *testing.T) {
	dir := t.TempDir()
	slow, begun, written := false, make(chan struct{}), make(chan struct{})
	w := openWorld(t, dir, onSync(memfs.New(dir), func() error {
		if slow {
			slow = false
			close(begun)
			<-written
		}
		return nil
	}), "n1")
	voters := []string{lone.Name("n1")}
	slow = true
	var creating sync.WaitGroup
	creating.Go(func() {
		if err := CreateGroup(w.Stores, lone, voters); err != nil {
			t.Error(err)
		}
	})
	await.Receive(t, "the first fsync", begun)
	said := make(chan error, 1)
	creating.Go(func() {
		if level := w.Level(); level == 0 || len(w.Groups()) > 0 {
			t.Errorf("it is at level %d and has the replicas %v", level, w.Groups())
		}
		said <- CreateGroup(w.Stores, lone, voters)
	})
	if err := await.Receive(t, "its level and its replicas", said); err == nil {
		t.Error("a replica that was being created was created again")
	}
	if err := DestroyGroup(w.Stores, lone); err == nil {
		t.Error("a replica that was being created was destroyed")
	}
	close(written)
	creating.Wait()
	if groups := w.Groups(); len(groups) != 1 {
		t.Errorf("it has the replicas %v", groups)
	}
	if err := CreateGroup(w.Stores, lone, voters); err != nil {
		t.Errorf("a repeated creation: %v", err)
	}
	w.close(t)
}
