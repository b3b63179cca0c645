// Package raftfsm is everything this project knows about hashicorp/raft, raft-boltdb and Pebble: one Raft group for
// each shard, the disk below it, and the rules that make the three trustworthy together.
//
// It owns the data directory of a node (Stores): the logs of all groups in one Pebble database, so that one fsync
// serves all that wait; identity, terms and votes in one bolt file; snapshots in a directory for each group. It owns
// the Raft member of each shard (Group) and, through it, the shard's State, into which committed entries are
// installed. It never evaluates a request, reads no request's time, and knows no actor, no cluster table and no
// network address: it is handed a StreamLayer that reaches replicas by name.
//
// All exported methods may be called concurrently; Propose by one goroutine for each group.
//
// # What raft is trusted with, and what not
//
// Trusted: elections with pre-vote, replication, commitment, snapshots, membership. An entry that it hands to the
// state machine is committed, and every replica is handed the same ones in the same order. The rest has rules, each
// for a reason:
//
//   - Heartbeats wait their turn. raft's fast path handles them beside its main goroutine; one that carries a newer
//     term changes the term under a leader that is about to write, and two entries with equal index and term differ
//     (hashicorp/raft issue 695). The transport ignores raft's wish to have a fast path. A test reproduces the fork
//     on the bare transport and fails if it stops seeing it.
//   - A finished future is not success. raft reports one as done whatever the state machine did. Only a
//     shard.Outcome that came back through it counts, and any other answer ends the process.
//   - Three errors are certain, all others are unknown outcomes (proposalError). A proposal has time-outs of its
//     own, because raft forgets to answer one that was committed and not yet applied when it shuts down.
//   - Leadership is a hint. raft's channel merges edges, and its lease counts refusals as contact. The proof is the
//     caller's own EpochOpen, committed and installed.
//   - The first error of a write or an fsync is the last. raft retries, and an fsync that is retried may succeed
//     without having written (the kernel drops the dirty page with the first error). A latch (poison) is set, one
//     line is logged, StoresConfig.Fatal is called once, and the goroutine of raft that met the error ends there:
//     raft would otherwise answer some of them with a panic. The latch is the node's, as the database is.
//   - A disk that hangs is a disk that failed, later. raft's leader goes on sending heartbeats while its main
//     goroutine waits. After one heartbeat time-out the transport falls silent, after three the process stops
//     (watchdog).
//   - A leader's copy counts when its own disk has it. hashicorp/raft counts it as soon as StoreLogs returns, and a leader's
//     StoreLogs returns before its fsync; so the followers' answers, without which nothing is committed, wait in the transport
//     for that fsync, and a newer term waits for all of them. What has no other voter to wait for is fsynced first (ahead).
//   - A vote is one write. raft makes two, and a crash between them mixes two votes (issue 661).
//   - Whatever is read is checked: log entries, terms, votes and the snapshot carry checksums, and entries their own
//     index. What does not check is never served; the replica stops.
//   - A replica comes into being by CreateGroup and in no other way, under a number that is never used twice. An
//     empty store under an old name would vote with amnesia and lose acknowledged entries. OpenGroup compares what
//     it finds with the record of the creation and answers ErrLost.
//   - Members are known by name (node/shard/replica), which is also their address: votes are kept by address.
//   - A number ends with DestroyGroup. A tombstone stays, so that a late order cannot bring an empty replica to life under
//     a name that has voted.
//   - A disk that failed to write is not trusted by the next process either. Before Fatal is called, a mark beside the
//     stores names the replicas that stood there (suspicion); OpenGroup refuses them with ErrLost until they are destroyed
//     and replaced under new numbers. Not after a hang or for want of room: then nothing was lost. The only voter of a
//     group goes on (see below), and is off the mark with that.
//   - A membership change names the configuration that it was decided upon. raft tells its latest configuration without
//     its index, so roster keeps both, from what raft writes to the log. A member comes as a learner, is promoted when its
//     log has caught up (heartbeats say how far it is), and never removes itself.
//   - A leadership transfer goes only to a voter that answered within the last election time-out: one to a silent replica
//     can leave raft refusing proposals for ever (issue 696). Should it happen all the same, Transfer says so (ErrStuck),
//     and the group is to be opened anew. raft then leaves two goroutines behind.
//   - The timing is a decision of the caller (GroupConfig.Lone), who knows the cluster's table, and not a count of voters
//     in a log that may be old. Lone is refused when the log names several, and a Lone group promotes nobody.
//
// # What an entry costs
//
// BenchmarkEntry counts it; figures are in docs/benchmarks.md, "The log". On three nodes it is mostly the kernel's part: an
// fdatasync for each replica, two sleeps and wakes of a thread for each, and four messages. So fewer and larger
// entries win, and:
//
//   - Groups that write at the same time share an fsync (Pebble's group commit): with 16 busy groups three replicas make
//     two fsyncs for three entries, and not nine. Nothing waits for company: an interval between fsyncs
//     (WALMinSyncInterval) showed no clear gain.
//   - Pebble overwrites its log files (memTableBytes says why that matters). A deletion is one tombstone, written by raft's
//     snapshot goroutine: 10,000 entries take 0.4 ms. What proposals feel of a snapshot is its fsyncs on the same disk.
//   - raft reads nothing back: what replication and the state machine need is in raft.LogCache, until a follower is more
//     than cachedEntries behind.
//   - No pipelines: one message under way to each follower, with all that was written meanwhile (transport).
//   - The leader's fsync runs beside the followers' (ahead), as Raft allows and hashicorp/raft by itself does not do. It costs
//     no processor time less; an entry waits for one fsync and a round trip, and not for two fsyncs.
//
// # What a restart does
//
// After a failed fsync the newest bytes may exist in the page cache only. A process that starts then would read them,
// build on them, and lose them with the next power cut. Pebble, when it opens its database, replays its write-ahead
// log into a new table, fsyncs that and only then opens: the tail is on the disk before a group answers its first RPC,
// and this package does not write it again. A test takes the cache away after such a restart. For the only voter of a
// group this is the whole story: what was only in the cache was never answered.
//
// # Limits
//
// Checked and known: a byte that flips within the last 32 KiB of Pebble's write-ahead log looks like the torn end that
// a crash leaves, and the entries behind it are dropped without an error; before that it is an error. Terms, votes and
// snapshots go through the file system of the machine and cannot be put on an injected one. Stores.Close and
// Group.Shutdown wait for writes that hang. A group that is opened Lone keeps its timing (a 50 ms lease cannot be
// changed while it runs): it is to be shut down and opened anew before it gets a second voter. The mark of a failed disk
// is written within 200 ms or not at all. A destroyed replica's keys stay in the bolt file, empty: it knows no deletion.
// A learner that was opened and then loses its log alone, in a database that is otherwise whole, is not noticed.
package raftfsm
