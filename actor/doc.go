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
// they wait for the next epoch, or are told that this node is not the owner.
//
// # The gate
//
// Allowed, denied, read and replayed answers all wait until the entry of their batch is installed: a batch of denials
// commits an entry without effects. There is no other way to an answer (SEMANTICS S1, DESIGN.md section 3).
//
// # Time
//
// Shard time is max(last + 1, anchor + monotonic time since): the anchor is this machine's clock when the epoch was
// opened. A clock that steps, or an owner that is behind its predecessor, can only make time stand still.
//
// Submit may be called by any number of goroutines. Everything else belongs to the node that started the Actor.
package actor
