// Package raftfsm contains everything that this project knows about hashicorp/raft, raft-boltdb and Pebble: one Raft
// group for each shard, the disk below it, and the rules that make the three trustworthy together.
//
// It owns the data directory of a node (Stores): the logs of all groups in one Pebble database, so that one fsync
// serves all waiting groups; identity, terms and votes in one bolt file; and a snapshot directory for each group. It
// owns the Raft member of each shard (Group) and, through it, the shard's State, into which committed entries are
// installed. It never evaluates a request or reads a request's time, and it knows no actor, no cluster table and no
// network address: its caller provides a StreamLayer that reaches replicas by name.
//
// All exported methods may be called concurrently, except Propose, which one goroutine calls for each group, and those
// of Remains.
//
// # Which parts of raft are trusted
//
// Trusted: elections with pre-vote, replication, commitment, snapshots, membership. An entry that raft hands to the
// state machine is committed, and every replica receives the same entries in the same order. Everything else has rules,
// each for a reason:
//
//   - Heartbeats are handled in order. raft's fast path handles them beside its main goroutine. A heartbeat with a
//     newer term then changes the term under a leader that is about to write, and two entries with equal index and term
//     differ (hashicorp/raft issue 695). The transport ignores raft's request for a fast path. A test reproduces the
//     fork on the bare transport and fails if the fork no longer occurs.
//   - A finished future does not mean success. raft reports a future as done regardless of the state machine's result.
//     Only a shard.Outcome returned through the future counts, and any other answer ends the process.
//   - Three errors are certain; all others are unknown outcomes (proposalError). A proposal has its own timeouts,
//     because a raft that shuts down does not answer a proposal that was committed and not yet applied.
//   - Leadership is a hint. raft's channel merges edges, and its lease counts refusals as contact. The proof is the
//     caller's own EpochOpen, committed and installed.
//   - The first error of a write or an fsync is final. raft retries, and a retried fsync may succeed without having
//     written anything (the kernel drops the dirty page with the first error). Instead a latch (diskLatch) is set, one
//     line is logged, StoresConfig.Fatal is called once, and the raft goroutine that met the error ends there:
//     otherwise raft would answer some of these errors with a panic. The latch belongs to the node, as the database
//     does. Pebble answers some of these errors in a way that crashes the Go runtime, so it never sees any (faultyFS),
//     and its results after the first error are not trusted. A test makes every operation on its files fail in turn.
//   - A disk that hangs is treated as failed, after a delay. raft's leader keeps sending heartbeats while its main
//     goroutine waits. After one heartbeat timeout the transport stops sending, and after three the process stops
//     (watchdog).
//   - A leader's copy counts only when it is on the leader's own disk. hashicorp/raft counts it as soon as StoreLogs
//     returns, and StoreLogs on a leader returns before its fsync. So the followers' acknowledgments, without which
//     nothing is committed, wait in the transport for that fsync, and a newer term waits for all of them. Entries of a
//     group without another voter are fsynced first (unsyncedWrites).
//   - A vote is one write. raft makes two, and a crash between them mixes two votes (issue 661).
//   - All data is checked when it is read. Log entries, terms, votes and the snapshot carry checksums, and entries
//     carry their own index. Data that fails its check is never served; the replica stops.
//   - No other user changes or reads the data directory. It is closed to other users when it is opened, and a symbolic
//     link in place of a file that is written is refused. The pages of bbolt's file are checked before bbolt maps the
//     file into memory, because bbolt trusts its content on a goroutine where panics cannot be recovered (checkBolt).
//   - A replica comes into being only by CreateGroup, under a number that is never used twice. An empty store under an
//     old name would vote with amnesia and lose acknowledged entries. OpenGroup compares the stores with the record of
//     the creation and returns ErrLost if they do not match.
//   - Members are known by name (node/shard/replica). The name is also their address, because votes are kept by
//     address.
//   - What is left of a node is read without a change (Remains): not repaired, as opening its stores would, nor
//     unmarked. A library that wants to write there gets an error. Only RestoreStores makes state of it, in another
//     cluster.
//   - A number ends with DestroyGroup. A tombstone stays, so that a late order cannot create an empty replica under a
//     name that has voted.
//   - After a disk failed to write, the next process does not trust it either. Before Fatal is called, a mark beside
//     the stores names the replicas on that disk (suspicion). OpenGroup refuses them with ErrLost until they are
//     destroyed and replaced under new numbers. There is no mark after a hang or when the disk was full: then nothing
//     was lost. The only voter of a group continues (see below), and is taken off the mark.
//   - A log that lost its fsynced end looks like a log that was torn by a crash, but must not be treated as one. A
//     mark, written twice a second, says how far the newest log file was fsynced and what checksum those bytes have
//     (tail). A log that does not match its mark is lost. All replicas on the node are replaced. The only voter of a
//     group waits for a person's decision, because here acknowledged requests are lost with the log.
//   - Memory is not trusted either. A snapshot adds up the records that it writes and fails if they are not the
//     installed ones. Then Observer.Diverged is called; the log is sound and stays. Convict is for a replica with
//     memory that is known to be wrong: OpenGroup refuses it with ErrLost from then on, in this process and the next.
//     Its data stays on disk until DestroyGroup.
//   - The directory carries the cluster's feature level. A binary that does not know the level does not open the
//     directory. Pebble's own format is fixed (pebbleFormat) until a level says otherwise, because a format cannot be
//     downgraded.
//   - A membership change names the configuration that it was decided upon. raft reports its latest configuration
//     without its index, so roster keeps both, taken from raft's writes to the log. A member starts as a learner, is
//     promoted when its log has caught up (heartbeats report its progress), and never removes itself.
//   - A leadership transfer goes only to a voter that answered within the last election timeout: a transfer to a silent
//     replica can leave raft refusing proposals forever (issue 696). If that happens anyway, Transfer returns ErrStuck,
//     and the group must be shut down and opened again. raft then leaks two goroutines.
//   - raft stands for election at once when it is asked to, even as a leader or a learner, or when it has just voted
//     for another one. Succeed asks only when none of this is true, and while raft handles no other request
//     (transport.begin).
//   - The caller knows the cluster's table, and decides the timing (GroupConfig.Lone). The voters in a log that may be
//     old do not decide it. Lone is refused when the log names several voters, and a Lone group promotes no learner.
//
// # What an entry costs
//
// BenchmarkEntry measures it; the figures are in docs/benchmarks/log.md. On three nodes most of the cost is in the
// kernel: for each replica an fdatasync and two sleeps and wakeups of a thread, and four messages. So fewer and larger
// entries win:
//
//   - Groups that write at the same time share an fsync (Pebble's group commit). With 16 busy groups, three replicas
//     make two fsyncs for three entries instead of nine. Writes do not wait for one another: an interval between fsyncs
//     (WALMinSyncInterval) showed no clear gain.
//   - Pebble overwrites its log files (memTableBytes says why that matters). A deletion is one tombstone, written by
//     raft's snapshot goroutine: 10,000 entries take 0.4 ms. A snapshot slows proposals down only by its fsyncs on the
//     same disk.
//   - raft reads nothing back: the entries that replication and the state machine need are in memory (recentLog), until
//     a follower is more than 64 entries or 1 MiB behind.
//   - No pipelines: one message at a time is under way to each follower. It carries all entries written in the
//     meantime, up to 256 KiB (transport).
//   - A copy that no commit waits for costs as much as one that does. So a follower rests while the others commit
//     without it, for up to 50 ms, and is then sent all entries of that time at once (transport.rest). If it is needed,
//     it hears of it within a few commits' time. It saves a fifth to a quarter of an entry's cost. A pre-vote is asked
//     for again, since the follower that rests cannot be elected.
//   - Heartbeats cost no fsync, only messages and wakes of threads, and are most of what an idle node does. Those of
//     all groups of a node leave at the same time (beatEvery). They say what is committed (transport.heartbeat), so
//     that raft's own messages about it, which leave one by one, may be rare (commitTimeout). Entries that are lost are
//     sent again sooner than raft would (transport.replicate).
//   - The leader's fsync runs in parallel with the followers' (unsyncedWrites). Raft allows this, but hashicorp/raft
//     does not do it by itself. It saves no processor time; an entry waits for one fsync and a round trip instead of
//     two fsyncs.
//
// # What a restart does
//
// After a failed fsync the newest bytes may exist only in the page cache. A process that starts then would read them,
// build on them, and lose them with the next power cut. When Pebble opens its database, it replays its write-ahead log
// into a new table, fsyncs that and only then returns. So the tail is on disk before a group answers its first RPC, and
// this package does not write it again. A test drops the cache after such a restart. For the only voter of a group
// nothing more is needed: requests that existed only in the cache were never answered. Before Pebble opens the
// database, the log is compared with its mark.
//
// # Limits
//
// The following limits are known.
//
//   - Bytes that were fsynced in the last half second before a process died without an orderly stop are not covered by
//     the mark of the log's end. If the disk loses or changes them (the end of the newest log file, or a flipped byte
//     within its last 32 KiB), the damage looks like the torn end that a crash leaves, and the entries after it are
//     dropped without an error. Damage before that point is an error.
//   - A flipped bit in the newer of bolt's two meta pages looks like an unfinished transaction.
//   - Bolt maps its file into memory, so on an injected file system terms and votes are kept in another kind of file
//     (StableFS).
//   - Stores.Close and Group.Shutdown wait for writes that hang.
//   - A group that was opened Lone keeps its timing (a 50 ms lease cannot be changed while the group runs): it must be
//     shut down and opened again before it gets a second voter.
//   - The mark of a failed disk is written within 200 ms or not at all.
//   - The keys of a destroyed replica stay in the bolt file, with empty values, because the file has no deletion.
//   - A learner that was opened and then loses only its log, in an otherwise intact database, is not noticed.
//
// Ids such as R5 and R12a name rules of docs/rules.md.
package raftfsm
