package node

import (
	"errors"
	"fmt"

	"github.com/stint-io/stint/raftfsm"
)

// ErrConfig is in the chain of an error about the configuration: nothing was touched.
var ErrConfig = errors.New("configuration")

// ErrDisk is in the chain of a fatal error after which the disk must not be trusted: exit with status 75.
var ErrDisk = errors.New("the disk cannot be trusted")

// ErrRemoved is in the chain of an error of a node that was removed from its cluster: its data directory cannot be used
// again.
var ErrRemoved = errors.New("this node was removed from its cluster")

// ErrTwice is in the chain of the error of a process that stops because another one answers under its node id.
var ErrTwice = errors.New("its node id is taken")

// diskError wraps an error from the stores in ErrDisk if the disk does not hold what was written to it.
func diskError(err error) error {
	if errors.Is(err, raftfsm.ErrCorrupt) || errors.Is(err, raftfsm.ErrLost) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return err
}

// untrusted wraps a fatal error in ErrDisk if it comes from stores that have stopped: a goroutine that they refuse may
// be the first to tell the node, before the one that saw the disk fail.
func untrusted(err error) error {
	if errors.Is(err, raftfsm.ErrUntrusted) && !errors.Is(err, ErrDisk) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return err
}
