// Package shard implements one slice of the key space: the usage of its keys, the decision of a batch of requests, and
// the record of the outcome, which brings every replica to the same state.
//
// # The two halves
//
// Evaluate decides. It is a pure function: its inputs are requests, a read view, policies and one instant, and its
// outputs are a Result for each request and the effects. An effect (Put) is the new absolute record of one key, never a
// difference. There is one for each touched key, however many requests touched it. Only an owner evaluates.
//
// State.Install applies. It takes one log entry and stores its effects without any arithmetic of limits, so replicas of
// different versions stay equal. Every replica installs.
//
// One request is all or nothing: if one limit of one entry denies, no limit of any entry changes, except for policies
// with count_denied. A limit or policy in shadow counts what it would have admitted and denies nothing. A denial by
// soft limits only is a challenge (Decision.Challenged): it counts nothing, also with count_denied.
//
// # The parts of an evaluation
//
// A batch is the state shared by the requests of one Evaluate: the view with the effects of the earlier requests on
// top, policies, instant, and the counters and sessions used. An evaluation is one request on top of the batch: its
// charges, each of which has the counter of an entry and the limits in force, and the states to which they lead. State
// that only some requests need is in types of their own, each of which embeds its base:
//
//	batch                 eval_batch.go       auditLog, documents, leasedKeys: records of the batch
//	evaluation            eval.go             one request
//	  sessionEvaluation   session_eval.go     a request that its session may have had before
//	  partEvaluation      operation_part.go   a message of an operation on several shards
//	    homeEvaluation    operation_home.go   and this shard decides it
//	    legEvaluation     operation_leg.go    and this shard is a leg
//
// # What it owns
//
//   - Request.Slot: the slot of the records about a request. Package shard/slot maps slots to shards.
//   - The records. For (namespace, policy, key): the states of the policy's limits, each with the numbers that shaped
//     it, and if present the open holds, the lockout ladder and the override of the key. For (namespace, idempotency
//     id): the answer. For a Session: the numbers of its counted requests. For the shard: the revision of the policies
//     that it has adopted, how holds and refunded decisions ended, the newest changes by hand, and the events. On the
//     system shard: the documents. Every record contains the instant from which it no longer matters.
//   - The entries of the log, with format, fence and checksum, and the order in which they may be installed.
//   - Shard time, epoch and seq, as of the newest installed entry.
//   - Snapshots, and the sums (State.Sum) by which replicas detect that one of them differs.
//   - The errors, grouped by fate: certainly not applied, and maybe applied.
//
// # What it does not know
//
// The package does not know the clock, Raft, the network, other shards, how many requests make a batch, or whether this
// node is the owner. Keys (KeyProblem) and ids are checked for form before a request gets here. Harmful values are
// refused here as well, because a request may come from another node: a cost outside 1..2^40, a key that is too long
// for a record, a time that cannot be encoded.
//
// # Unreadable records, and defects
//
// A record may be unreadable to this version, because a newer version wrote it, memory failed, or there is a defect.
// Install stores it as it is. It causes the error Unreadable in each request that needs it: a counter for its key, an
// answer for its id, an end for its hold, a leg or a ruling for its operation, a document for its name. An unreadable
// session counts as gone. Time zones are those of the program (package limit); a record that names another zone is
// unreadable.
//
// A panic during the evaluation of a request is a defect, and fails that request with a Fault. The evaluation is thrown
// away, and the requests before it are evaluated again without it. So one key can stop neither its shard nor the next
// owner.
//
// # No request counts twice
//
// Three mechanisms keep a repeated request from being counted twice. An idempotency id belongs to the client: it
// returns the first answer again, within the policy's retention. A Session belongs to the entry node: it costs a bit
// per request, and some bytes while the request is in progress, and returns the request's answer again. NotAfter
// refuses a copy that arrives too late for either.
//
// # Holds, settlements and changes by hand
//
// A Reserve takes units and leaves a hold of them in the counter of each of its entries. A Settle ends the hold, or
// keeps it open for longer. Otherwise it expires. A hold ends once: the end of a settled hold is recorded under its
// name, and an expired hold is no longer in its counters. A decision without a hold can also be settled once, within
// the shortest retention of its policies, which refunds its units. A Sealer makes the ids by which clients name both.
//
// The units of a hold or decision are given back into the window that they were taken from. A bucket gets back the
// units that have not come back on their own. Each state of a limit has the instant since which it counts (the since of
// a counter, the generation of X6): units taken before the state began, was put to rest or was set by hand are not
// given back. The since is dropped together with the state, since a state that begins again has a later one. It is also
// dropped when no decision that old can be refunded and no hold that old is open.
//
// When numbers change, usage is carried over according to the policy's OnChange. Additive and Restart apply to a new
// revision: between tiers, and when an override comes or goes, used units stay used. A revision takes effect at the
// instant of its adoption, and an override ends at its own, whichever request looks first (counter_revision.go): a read
// works on a copy, and writes only a restart that it finds. The numbers of a tier or of inline limits are written with
// the first request that may count, whatever its answer. If a revision slows a limit down while the key has an override
// that ends, and no request writes the record, it is forgotten by the earlier numbers. A Request with an Adjustment
// leaves an AuditRecord.
//
// A Session may send a copy of a request. Answers that are large and cannot be computed again (Reserve, Partial,
// Settle) are repeated from a record of their own, which is forgotten when the entry node reports the request as
// finished. All other answers, including a denial that was counted, are repeated from the session's record, as far as
// it remembers (session_answer.go).
//
// # Tallies
//
// A Tally is a counter as in Redis: it may be below zero, it exists while it is 0, and it may have an end. It is the
// state of the limit in TallyLimits, in the ordinary record of an entry with inline limits. So other operations on a
// limit of that name count on it. Their units are not given back, since the tally may have ended and begun again in
// between. A Tally is never denied, leaves no audit record, and its answer has no limits.
//
// # Holds, ladders and time
//
// A hold expires, and a block ends, without a timer. An evaluation that loads a key first ends the expired holds, in
// order and each at its own instant, which gives the same result as a timer. A remote hold, which is part of an
// operation on several shards, ends only by home's ruling. RetryAfter of a denial is exact even with holds, blocks and
// overrides: it takes into account when they expire, and the blocks to which that leads.
//
// # Parents
//
// The entry node adds the entries of the parents (ParentOf), and names the revision of the policies by which it did. A
// shard with a newer revision refuses the request as Outdated if a parent is missing. A shard with that revision or an
// older one accepts it as it is. A request that was already counted is recognized before this check, by its client's
// part of it: neither its fingerprint nor its home depend on parents, and home looks for both records that its id may
// have (operation_id.go).
//
// # Operations on several shards
//
// An operation has a home, the lowest slot of the keys that the client has named, and legs, which are the others. Its
// parts are those of slots, which may move from shard to shard, so two of them may be on one shard. Each leg is charged
// before home decides. Home decides in one entry, its own entries and with them the whole operation. Home's record of
// that, the ruling, is the outcome and is never made twice. The following rules keep this safe if messages are lost,
// duplicated or late, and if any node dies (X4):
//
//   - A leg ends only by home's ruling, and home remembers a commit until every leg has acknowledged it. An operation
//     that home does not know is not committed: the first question about it makes it aborted from then on.
//   - A charge is named by its place in the log, and a ruling lists the places that it covers. A later charge under the
//     same id is a different one: no verdict on the first affects it, and if it asks home on its own it is aborted.
//   - A Conclude is not accepted later than ConcludeWithin after its earliest charge, and an abort is remembered for
//     longer. So a coordinator that was stuck gets either the ruling that was made or the answer that it is too late.
//   - The charge of a leg counts as used, and is a remote hold. So nothing is admitted above a limit in the meantime,
//     and a request may be denied that would have had room.
//   - Excess that is refused if it does not fit (OverageReject) is charged by the legs before home settles, as the legs
//     of an operation of its own, the Excess. Home commits the Excess in the entry in which it settles, or aborts it in
//     the entry in which it refuses.
//   - A hold on several shards is settled, or expires, by home's record and home's time; the legs follow when they hear
//     of it. They know when that is expected, and ask home then, so a denial can tell how long to wait. A leg is
//     remembered for as long as its decision can be refunded.
//
// State.Duties lists the messages that a shard owes others. It is an index over the open records, which a Restore
// rebuilds. Policies with count_denied are refused in such operations, since their denials are not counted. An id is
// looked up among operations, not among the requests that one shard decided alone.
//
// # Thresholds and events
//
// When counted units cross a threshold of a limit, the entry of the decision also has a mark in the counter, so that
// the threshold fires once in its window (counter_threshold.go), and an event (eval_outbox.go). The event waits in the
// outbox for the sinks of the policy; the node that delivers it acknowledges it, or gives up, for each sink. The outbox
// is bounded, and no decision waits for it or is refused for it. An event is named by Event.ID, which its reader
// computes: the id contains the cluster's ledger, and a shard does not know that document of the system shard. A
// NoteSpike leaves an event and a cooldown. Positions of pushes are kept for the pusher.
//
// # The system shard
//
// System is an ordinary shard that holds documents and no keys. A Document is replaced as a whole by Swap, if it still
// has the expected version. It is read by Fetch, or without a commit by ReadDocument.
//
// # The fence
//
// An epoch begins with an entry made by EncodeEpochOpen; its number is the Raft index of that entry. From then on an
// entry is installed only if it carries that epoch, was written in the same Raft term, and its seq is the next one. All
// others are dropped, on every replica alike. An entry that is corrupt, of an unknown level, for another shard or
// earlier than shard time is an error: the replica must halt, since a replica that skipped an entry alone would have
// forked.
//
// # Sums
//
// A bit may flip in one replica's memory, and nothing in the log shows it. So the owner logs a sum entry now and then,
// and after it each replica records its own sum and goes on (R12). A sum never halts Install: a single replica cannot
// know which sum is wrong, and an entry that halted good replicas would halt them again at each start. The sums of all
// replicas are compared elsewhere (placement.Judge).
//
// A sum covers epoch, term, seq, time, and the records that end after the running minute. Records that have ended are
// in no sum, because releases may sweep them at different times. Nor are the sweeps themselves or the layout of the
// table. A sum is updated as records come and go, by the minute of their end, and does not reread them: a flipped
// record shows when it is replaced. A Snapshot adds up what it writes, so it reads every record, and a flipped one is
// ErrDiverged. No sum shows what an owner computed from a flipped record before that.
//
// # Forgetting
//
// A record is dropped when shard time has reached its ForgetAt and the sweep of a later entry reaches it, or when an
// effect says so, as with the answer to a Session's finished request. Nothing else is forgotten. A full shard
// (View.Room) refuses requests that would add a record, and a brimful one refuses requests that would make a record
// grow (room.go). A policy with MaxKeys, and a policy or namespace that takes most of a crowded shard, add none
// earlier (share.go).
// What is dropped, and when, is a function of the entries and the release alone. An owner that is idle logs sum entries
// more often while many ended records remain (State.EndedRemain).
//
// An id that carries a time is judged by the current retention. After a policy change to a longer retention, an id
// older than the former retention may run again, since its record is gone. The same holds for the refund of a decision.
//
// A person may ask to be forgotten. Forget deletes a shard's records of a key, under any policy, and removes the key
// from records that must stay (eval_forget.go). It reads every record.
//
// # A restore from a backup
//
// Continue makes the states with which the shards of a cluster go on from a backup, some time later. They may be more
// or fewer than in the backup: records go to the shard of their slot. It leaves a mark. What was decided in between is
// not known, so under the mark a limit without a state is full (limit.Full), for any key and any tier, until that no
// longer counts. A limit that keeps, by its policy or by the mark, has no such rule. Places in the lost part of the
// log, and times in ids, show what cannot be told any more: a settlement or a repetition of that is refused. Units that
// were taken before give nothing back, since every state that the backup has begins at the restore (X6). Legs go on
// asking home, which aborts what it lost.
//
// A limit that is put to rest or set by hand is known again, and its record says so until it would no longer be full.
// The ladder of a key that the backup does not have is a block, for the longest that there may be.
//
// # Concurrency
//
// A State has one writer: Install and Snapshot must not overlap with anything. Reads (Lookup, Sum and the rest) may
// overlap with each other. Another goroutine may write a Snapshot out while the State goes on. Of and the Encode
// functions may be called by any number of goroutines, and so may Evaluate if its View allows it. The Value of a
// looked-up Record belongs to the State: callers must read it at once and neither change nor keep it.
//
// Ids such as R12 and X4 name rules of docs/rules.md.
package shard
