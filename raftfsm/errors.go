package raftfsm

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/raft"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// ErrLost says that a data directory or a replica lost part of what it had acknowledged. It starts no Raft member and
// answers no vote: with its old name and a shorter memory it would vote twice and drop acknowledged entries. It must be
// replaced under a new number, which needs another voter. Without one, a new cluster is restored from a backup, or from
// what is left on the disks (Remains).
var ErrLost = errors.New("a part of it is lost")

// ErrDestroyed says that a replica was destroyed here (DestroyGroup). ErrLost is in its chain: a table that lists the
// replica must list another number.
var ErrDestroyed = fmt.Errorf("it was destroyed here, and its number is not used again: %w", ErrLost)

// errSuspect is in the chain of OpenGroup's error after a failed write.
var errSuspect = fmt.Errorf("its disk failed to write, and may have forgotten what it acknowledged: %w", ErrLost)

// ErrCorrupt is in the chain of every error about bytes on disk that differ from those written. As with ErrLost, a
// restart does not help: the replica must be replaced, or recovered from a backup.
var ErrCorrupt = errors.New("corrupt")

// ErrUntrusted is in the chain of every error of stores that have stopped because their disk failed or holds other
// bytes than were written (StoresConfig.Fatal is told). What is refused afterwards, by any goroutine, is a failure of
// the disk too.
var ErrUntrusted = errors.New("the stores can no longer be trusted")

// writeError is a failed write or fsync.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

func writeFailed(err error) error { return writeError{err} }

// noRoomErrors are the errors of writes that never reached the disk: its existing data is unaffected.
var noRoomErrors = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}

// corruption adds ErrCorrupt to the chain of an error by which a library reports wrong bytes.
func corruption(err error) error {
	for _, sign := range []error{bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch,
		bolterrors.ErrIncompatibleValue} {
		if errors.Is(err, sign) {
			return fmt.Errorf("%w: %w", err, ErrCorrupt)
		}
	}
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return err
}

// during says in what an error came; nil stays nil.
func during(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// retrySoon is the retry hint for proposals that are in no log: about one election.
const retrySoon = limit.Span(heartbeatTimeout / 1000)

// proposalError says what became of a proposal that raft answered with an error. Only three errors certainly left no
// entry behind. Every other error, including any that a later version adds, is an unknown outcome: the entry may be in
// this node's log or in another's, and may still be committed.
func proposalError(err error) *shard.Error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return &shard.Error{Code: shard.NotOwner, Message: "this node does not lead the shard's group"}
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return unavailable("the shard's log is busy: the proposal found no place in it")
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return unavailable("the shard's group is handing over its leadership")
	}
	return unknown("the proposal may or may not take effect: " + err.Error())
}

func unavailable(message string) *shard.Error {
	return &shard.Error{Code: shard.Unavailable, Message: message, RetryAfter: retrySoon}
}

func unknown(message string) *shard.Error {
	return &shard.Error{Code: shard.UnknownOutcome, Message: message}
}
