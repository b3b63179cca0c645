package node

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stint-io/stint/raftfsm"
)

// Several goroutines write records. One that is refused by stores which have just stopped may be the first to tell the node,
// whose exit status says whether a supervisor may start the process again.
func TestARefusalByStoppedStoresIsTheDisksFailure(t *testing.T) {
	n := &Node{fatal: make(chan error, 1)}
	n.fail(fmt.Errorf("keeping the table: %w: %w", raftfsm.ErrUntrusted, syscall.EIO))
	n.fail(errors.New("whatever follows"))
	if err := <-n.fatal; !errors.Is(err, ErrDisk) || !errors.Is(err, syscall.EIO) {
		t.Errorf("the node ends with %v, want an error of the disk", err)
	}
	n.fail(errors.New("a task panicked"))
	if err := <-n.fatal; errors.Is(err, ErrDisk) {
		t.Errorf("the node ends with %v, which is not the disk's fault", err)
	}
}
