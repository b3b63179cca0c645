// Package shard is one slice of the key space: what its keys have used, how a batch of requests is decided on them, and
// how the outcome is written down so that every replica comes to the same state.
//
// # The two halves
//
// Evaluate decides. It is a pure function: requests, a read view, policies and one instant go in; a Result for each
// request and the effects come out. An effect (Put) is the new absolute record of one key, never a difference, and
// there is one for each touched key however many requests touched it. Only an owner evaluates.
//
// State.Install writes down. It takes one log entry and puts its effects in place without any arithmetic of limits, so
// replicas of different versions stay equal. Every replica installs.
//
// What belongs to one request is all or nothing: if one limit of one entry denies, no limit of any entry moves, but those
// of policies that say count_denied. A limit or policy in shadow counts what it would have admitted and denies nothing.
//
// # What it owns
//
//   - Of: which shard a key belongs to. The function never changes.
//   - The records: for (namespace, policy, key) the states of the policy's limits, each beside the numbers that shaped
//     it, and where there is any the open holds, the lockout ladder and the override of the key; for (namespace,
//     idempotency id) the answer that was given; for a Session which of its requests were counted; which revision of the
//     policies the shard has adopted; how holds and refunded decisions ended; the newest changes that people made; and, on
//     the system shard, the documents. Every record carries the instant from which on it says nothing any more.
//   - The entries of the log, with format, fence and checksum, and the order in which they may be installed.
//   - Shard time, epoch and seq, as the newest installed entry left them.
//   - Snapshots, and the fingerprint (State.Sum) by which replicas find out that they have forked.
//   - The errors, grouped by fate: certainly not applied, and maybe applied.
//
// # What it never knows
//
// The clock, Raft, the network, other shards, how many requests make a batch, and whether this node is the owner.
// Whether keys (KeyProblem), costs and ids are well formed is checked before a request gets here: a cost outside
// 1..2^40 panics.
//
// # Once, and not twice
//
// Three things keep a request from being counted twice when it is sent again. An idempotency id is the client's: it
// brings the first answer back, for the policy's retention. A Session is the entry node's: it costs a bit a request, and
// brings back that the request was counted. NotAfter refuses a copy that comes later than either can tell.
//
// # Holds, settlements and changes by hand
//
// A Reserve takes units and leaves a hold of them in the counter of each of its entries. A Settle ends the hold, or keeps
// it open for longer; nobody settling it, it expires. It ends once: what was settled leaves a record under the hold's name,
// and what has expired is in its counters no more. A decision without a hold may be settled once too, within the shortest
// retention of its policies, and so what it took is refunded. A Sealer makes the ids by which clients name both.
//
// What a hold or decision has taken is given back into the window that it was taken from, and not if the limit was put to
// rest, set or begun anew since (the since of its counter). A Request with an Adjustment leaves an AuditRecord.
//
// A Session's copy of a request whose answer cannot be made again (Reserve, Partial, Settle, a denial that was counted) is
// answered from a record of its own; that of a Tally from the session's.
//
// # Tallies
//
// A Tally is a counter as Redis has them: below zero too, there when it is 0, and with an end if it was given one. It is the
// state of the limit in TallyLimits, in the ordinary record of an entry that brings its limits along. So what else counts
// on a limit of that name counts on it; what was taken of it so is not given back, as nobody knows in which life of the
// tally that was. It is never denied, leaves no audit record, and its answer has no limits.
//
// # Holds, ladders and time
//
// A hold expires, and a block ends, without a timer: an evaluation that loads a key first ends the holds that have
// expired, in order and each at its own instant, and so comes to what a timer would have. A remote hold, which is part of
// an operation on several shards, does not expire. RetryAfter of a denial is exact with holds and blocks too: it looks
// ahead at what expires, and at the blocks to which that leads. A since is kept for as long as a decision may be refunded
// or a hold that old is open.
//
// # Operations on several shards
//
// An operation has a home, the lowest of its shards, and legs, the others. Each leg is charged before home decides, in one
// entry, its own entries and with them the whole; home's record of that, the ruling, is the outcome and is never made
// twice. What makes it safe whatever is lost, doubled or late, and whoever dies (SEMANTICS X4):
//
//   - A leg ends by home's word only, and home remembers what it has committed until every leg has said that it knows. What
//     home does not know is not committed: whoever asks makes it aborted from then on.
//   - A charge is named by its place in the log, and a ruling lists the places that it covers. A charge under the same id
//     that came later is another one: no verdict on the first moves it, and asking home for itself it is aborted.
//   - A Conclude is not taken later than ConcludeWithin after its earliest charge, and that it was aborted is remembered for
//     longer. So a coordinator that was stuck finds either the word that was given or that it is too late.
//   - What a leg has charged counts as used, and is a remote hold. So nothing is admitted above a limit meanwhile, and
//     something may be denied that would have had room.
//   - A hold on several shards is settled, or expires, by home's record and home's time; the legs do the same when they
//     hear of it. A leg is remembered for as long as its decision may be refunded.
//
// State.Duties lists what a shard owes others: an index over the open records, which a Restore finds again. Denials of
// such operations are never counted (count_denied). An id is looked up among operations, not among the requests that one
// shard decided alone.
//
// # The system shard
//
// System is an ordinary shard that holds documents and no keys. A Document is replaced as a whole by Swap, if it still
// has the version that was expected, and read by Fetch, or without a commit by ReadDocument.
//
// # The fence
//
// An epoch begins with an entry made by EncodeEpochOpen; its number is the Raft index of that entry. From there on an
// entry is installed only if it carries that epoch, was written in the same Raft term, and its seq is the next one. All
// others are dropped, by every replica alike. An entry that is corrupt, of an unknown format, for another shard, earlier
// than shard time, or that carries another fingerprint than ours is an error: the replica must halt, since a replica
// that passed over an entry alone would have forked.
//
// # Forgetting
//
// A record is dropped when shard time has reached its ForgetAt and a later entry's sweep comes by, or when an effect
// says so. Nothing else forgets: when a shard is full, View.Full, new keys are refused. What is dropped, and when, is
// a function of the entries alone, so fingerprints stay equal.
//
// An id that carries a time is judged by the retention of now: after a policy change to a longer one, an id that was
// older than the former retention, and whose record is gone, may run again. So may the refund of a decision.
//
// # What may be called concurrently
//
// A State has one writer: Install and Snapshot must not overlap anything. Reads (Lookup, Sum and the rest) may overlap
// each other. A Snapshot may be written by another goroutine while the State goes on. Of, the Encode functions and
// Evaluate may be called by any number of goroutines, Evaluate if its View may. The Value of a looked-up Record belongs
// to the State: it is read at once and neither changed nor kept.
package shard
