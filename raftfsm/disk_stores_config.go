package raftfsm

import (
	"io"
	"log/slog"

	"github.com/stint-io/stint/shard"
)

// StoresConfig configures OpenStores.
type StoresConfig struct {
	// Fresh is the identity given to a directory that has none.
	Fresh Identity
	// FreshRecords are records (Stores.PutRecord) that such a directory gets together with its identity: after a crash
	// it has all of them or none.
	FreshRecords map[string]any
	// FreshLevel is the feature level that such a directory gets; 0: shard.LevelFirst.
	FreshLevel shard.Level
	// Newest is the newest level that this binary knows; a directory with a newer one is refused. 0: shard.LevelNewest.
	Newest shard.Level
	// Release is this binary's release. An older binary names it when it refuses the directory.
	Release string
	// Node is the expected node: a directory of another node is refused. "" accepts the directory's own.
	Node string
	// Fatal is called once, by any goroutine, when the stores can no longer be trusted. It should end the process (exit
	// status 75) and must not wait for anything in this package. Required.
	Fatal func(error)
	// Logger must not block. nil discards all lines.
	Logger *slog.Logger
	// FS holds the Pebble database, snapshots and marks; nil is the real disk. Identity, terms, votes and the lock are
	// always on the real disk, unless FS is a StableFS.
	FS FS
	// Tables is the approximate number of the log's files that are kept open; 0: Pebble's default.
	Tables int

	memTable uint64    // for tests: replaces memTableBytes
	fatal    int       // for tests on the machine's disk, which may stand still for seconds: replaces fatalTicks
	filling  io.Closer // the lock of a directory that RestoreStores fills
}
