// Package actor is the single writer of a shard: it puts requests into an order, stamps one time on a batch, has the
// batch evaluated and its effects proposed, and lets no answer out before they are committed.
//
// What it owns: the mailbox, the epoch this node has open, the sequence numbers in it, the overlay of effects that are
// proposed and not yet installed, the policies of the open epoch, and the output gate. All of that is the sequencer's,
// which has no goroutine and no channel; the Actor is the thin loop around it. Shard time is its clock's.
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
// The epoch is the Raft index of our own EpochOpen. It ends with the first proposal that did not come back Installed,
// and as soon as this node is seen not to lead any more: what was in flight is answered as its outcome says (unknown, or
// not applied), the overlay is thrown away, and the next EpochOpen is proposed only when no older proposal is under way.
//
// Requests that still queue were never proposed. Where this node does not lead, they are told so at once: a router asks
// elsewhere. Where it does, they wait for the next epoch for 1.4 s, and are then told why there is none: what the newest
// EpochOpen was refused for, or what is missing to propose one (policies, or the time of a majority).
//
// # Policies
//
// A batch is evaluated under a policy.Revision that the shard's own log holds, and under no other (SEMANTICS X7). An
// epoch begins with the one that the log holds when it opens. When Config.Policies knows a newer version, an entry that
// adopts it goes into the log first, on its own; what is evaluated from then on goes by it, before the entry is
// installed: if it never is, nothing behind it is either. Adopted versions only grow: a node that knows older policies
// than the log parses the log's text. If it cannot, as its program is too old, no epoch is open here
// (Observer.Unreadable). A shard that has no policies yet, and whose owner knows none, opens no epoch.
//
// Without Config.Policies requests are evaluated without any: those of the system shard need none.
//
// # Handover
//
// Before a planned stop or a move the shard is given away (Handover, SEMANTICS X10):
//
//	open --- pause ---> what queues is refused as NotOwner --- all outcomes are there ---> closed --- transfer ---+
//	 ^                                                                                                            |
//	 +--------------------- a new epoch, if this node still leads -------------------------------------------------+
//
// Nothing is proposed meanwhile, adoptions and fingerprints included. What was refused was not executed, so a router may
// send it on without an id; what was under way is answered as usual. So a handover in which nothing fails leaves no
// outcome unknown.
//
// # The queue
//
// What a call holds is decided in its order, and calls are decided in the order in which they came, but for their lane
// (SEMANTICS R20): calls that only give units back go first, calls that only look go last. A call that does several
// things goes where checks go. So of two calls that are under way at the same time the later one may be decided first if
// it is of another lane; who waits for an answer before he asks again is decided in his order. While whole batches of
// checks queue, looks wait, until their deadline if need be.
//
// The queue is bounded by the number of requests and by a guess at their bytes. A caller that gives up leaves its
// requests in it; they are passed over when their turn comes, and until then they take room.
//
// # Batches
//
// A batch is whatever gathered while the entry before it was under way. An entry costs about the same whatever it
// carries, so where commits take longer than they could a batch waits a little for the callers who were just answered:
// see pace for how long, and for whom. The wait is over when they are back, after 10 ms at the latest, when a caller's
// deadline asks for it, and at once for a stop or a handover. Nothing waits for a fingerprint or an adoption to go out, and
// a caller who is alone never waits.
//
// # The gate
//
// Allowed, denied, read and replayed answers all wait until the entry of their batch is installed: a batch of denials
// commits an entry without effects. There is no other way to an answer (SEMANTICS S1, DESIGN.md section 3).
//
// # Time
//
// Shard time is max(last + 1, clock). The clock begins at the reference when the epoch is opened: the median of the
// voters' clocks (Config.Reference), or this machine's own where it is the only voter. From there on it goes by
// monotonic time and is slewed towards the reference by 500 ppm at most, looked at every 100 ms. So neither a clock that
// is set nor a reference that jumps reaches shard time within an epoch; and an owner whose reference is behind the last
// stamp makes shard time stand still: that can only admit too little. Observer.Frozen tells of it.
//
// Without a measurement of the reference no epoch opens, and one that is open goes on by monotonic time. A measurement
// does not outlive a step of this machine's clock, which it was made with.
//
// Monotonic time stands still while a machine is suspended. When shard time is more than 400 ms behind the reference,
// the epoch ends and the next one is anchored anew (SEMANTICS R18): what is decided before that is seen is stamped with
// the old time. This machine's clock is watched, too: more than 200 ms off the reference is told (Observer.ClockOff),
// an owner 400 ms ahead is asked to hand the shard over (Observer.HandOver), and 10 s off should stop the node
// (Observer.ClockWrong).
//
// The epoch of an only voter does not open more than 24 h past the last stamp without Config.AcceptStep, neither at a
// start nor after a suspend.
//
// # Memory
//
// A shard that holds Config.MaxBytes of records decides on the keys it knows, refuses new keys and new idempotency ids,
// and forgets nothing before its time. Observer.Full tells of it.
//
// Submit, Handover, Open, Epoch and Hint may be called by any number of goroutines; Start and Close belong to the node.
package actor
