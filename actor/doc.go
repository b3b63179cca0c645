// Package actor is the single writer of a shard: it puts requests into an order, stamps one time on a batch, has the
// batch evaluated and its effects proposed, and lets no answer out before they are committed.
//
// What it owns: the mailbox, the epoch this node has open, the sequence numbers in it, the overlay of effects that are
// proposed and not yet installed, and the output gate. All of that is the sequencer's, which has no goroutine and no
// channel; the Actor is the thin loop around it.
//
// What it never knows: what a limit is (shard.Evaluate does), how an entry is replicated (Replica does), and where
// other shards live.
//
// # The life of an epoch
//
//	closed --- Leading, every 100 ms ---> EpochOpen proposed --- Installed ---> open
//	   ^                                       |                                 |
//	   +--------------- any other outcome -----+---- a failed proposal ----------+
//	                                                 or somebody else's epoch
//
// The epoch is the Raft index of our own EpochOpen. It ends with the first proposal that did not come back Installed:
// what was in flight is answered as its outcome says (unknown, or not applied), the overlay is thrown away, and the
// next EpochOpen is proposed only when no older proposal is under way. Requests that still queue were never proposed:
// they wait for the next epoch for 1.4 s, and are then told why there is none: this node does not lead, or what the
// newest EpochOpen was refused for.
//
// # The queue
//
// All requests stand in one queue and are decided in the order in which they came, whatever they ask for. The priorities
// of SEMANTICS R20 (settles and refunds before checks, checks before reads) come with settles: today there is nothing
// to put first.
//
// The queue is bounded by the number of requests and by a guess at their bytes. A caller that gives up leaves its
// requests in it; they are passed over when their turn comes, and until then they take room.
//
// # The gate
//
// Allowed, denied, read and replayed answers all wait until the entry of their batch is installed: a batch of denials
// commits an entry without effects. There is no other way to an answer (SEMANTICS S1, DESIGN.md section 3).
//
// # Time
//
// Shard time is max(last + 1, anchor + monotonic time since): the anchor is this machine's clock when the epoch was
// opened. So a clock that is set back during an epoch does not reach shard time, and an owner whose clock is behind the
// last stamp makes it stand still: that can only admit too little. Observer.Frozen tells of it.
//
// Monotonic time stands still while a machine is suspended, and misses a clock that is set forward. When the clock is
// more than 400 ms ahead of shard time, the epoch ends and the next one is anchored anew (SEMANTICS R18). This is looked
// at every 100 ms: what is decided before that is stamped with the old time. No epoch opens more than 24 h past the
// last stamp without Config.AcceptStep, neither at a start nor after a suspend.
//
// # Memory
//
// A shard that holds Config.MaxBytes of records decides on the keys it knows, refuses new keys and new idempotency ids,
// and forgets nothing before its time. Observer.Full tells of it.
//
// Submit may be called by any number of goroutines. Everything else belongs to the node that started the Actor.
package actor
