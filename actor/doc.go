// Package actor is the single writer of a shard. It orders requests, stamps one time on a batch, evaluates it, proposes
// its effects, and releases no answer before they are committed.
//
// It owns the mailbox, this node's open epoch, the sequence numbers in that epoch, the policies of the open epoch, and
// the output gate. All of these belong to the sequencer, which has no goroutine and no channel; the Actor is the thin
// loop around it. Shard time belongs to the Actor's clock.
//
// It does not know what a limit is (shard.Evaluate does), how an entry is replicated (Replica does), or where other
// shards live.
//
// # The life of an epoch
//
//	closed --- Leading, every 100 ms ---> EpochOpen proposed --- Installed ---> open
//	   ^                                       |                                 |
//	   +--------------- any other outcome -----+---- a failed proposal ----------+
//	                                                 or another node's epoch
//
// The number of an epoch is the Raft index of this node's EpochOpen. The epoch ends with the first proposal that is not
// Installed, and as soon as this node notices that it no longer leads. Then the requests under way are answered
// according to their outcome (unknown, or not applied). The next EpochOpen is proposed only when no older proposal is
// under way.
//
// Requests that still queue were never proposed. If this node does not lead, they are refused with that reason at once,
// and a router asks another node. If it leads, they wait for the next epoch for 1.4 s. Then they are refused with the
// reason why there is none: the error of the newest EpochOpen, or the missing condition for proposing one (policies, or
// the time of a majority).
//
// # Policies
//
// A batch is evaluated only under a policy.Revision that the shard's own log holds (X7). An epoch begins with the
// revision that the log holds when it opens. When Config.Policies returns a newer version, an entry that adopts it goes
// into the log first, on its own; later batches are evaluated under it. Adopted versions only grow: a node that knows
// older policies than the log parses the log's text. If it cannot, because its program is too old, no epoch is open
// here (Observer.Unreadable). As long as neither the shard nor its owner has policies, no epoch opens.
//
// Without Config.Policies requests are evaluated without policies: those of the system shard need none.
//
// # Handover
//
// Before a planned stop or a move, the shard is handed to another node (Handover, X10):
//
//	open --- pause ---> queued requests are refused as NotOwner --- all outcomes are there ---> closed --- transfer ---+
//	 ^                                                                                                                 |
//	 +--------------------- a new epoch, if this node still leads -----------------------------------------------------+
//
// During that time nothing is proposed, not even adoptions and sum entries. The refused requests were not executed, so
// a router may forward them without an id. Requests under way are answered as usual. So a handover without failures
// leaves no outcome unknown.
//
// # The queue
//
// The requests of a call are decided in their order, and calls are decided in the order in which they came, except for
// their class (R20): calls that only give units back go first, and calls that only read go last. A call that does
// several things goes into the class of checks. So of two calls that are under way at the same time, the later one may
// be decided first if it is in another class. A caller that waits for each answer before its next request has its
// requests decided in order. While whole batches of checks queue, reads wait, until their deadline if necessary.
//
// The queue is bounded by the number of requests and by an estimate of their bytes. Abandoned requests stay in the
// queue and take room until their turn; then they are skipped.
//
// # Batches
//
// One entry of a shard is under way at a time (X9): a batch consists of the requests that gathered meanwhile, and is
// evaluated on the state with that entry installed. Larger batches beat entries that overlap, as an entry costs about
// the same regardless of its content. So where commits take longer than they could, a batch waits briefly for the
// callers that were just answered: see pace for how long, and for which callers. The wait ends when they are back,
// after 10 ms at the latest, when a caller's deadline requires it, and at once for a stop or a handover. Sum entries
// and adoptions go out without such a wait, and a single caller never waits.
//
// # The gate
//
// Answers of every kind (allowed, denied, read and replayed) wait until the entry of their batch is installed: a batch
// of denials commits an entry without effects. There is no other way to an answer (S1).
//
// # Traces
//
// The trace of a request (shard.Request.Trace) records when it is queued, proposed and installed.
//
// # A shard that has stopped
//
// Config.Stopped returns a reason if the replicas' records differ and it is unknown which are right, or if this
// replica's records are known to be wrong. While it does, all requests are refused with that reason and nothing is
// evaluated. The epoch stays open and sum entries are logged, so that the replicas continue to compare their records
// and the group's members can be changed.
//
// # Time
//
// Shard time is max(last + 1, clock). The clock starts at the reference when the epoch is opened. The reference is the
// median of the voters' clocks (Config.Reference), or an only voter's own clock. From there on the clock follows
// monotonic time and is slewed toward the reference by at most 500 ppm; the reference is read every 100 ms. So neither
// setting a machine's clock nor a jump of the reference affects shard time within an epoch. An owner with a reference
// behind the last stamp makes shard time stand still, which can only admit too little (Observer.Frozen).
//
// Without a measurement of the reference no epoch opens, and an open one continues by monotonic time. A step of this
// machine's clock invalidates the measurement, which was made with that clock.
//
// The reference of an only voter is its machine's clock as the actor first read it, plus the time that has passed
// since. Setting the clock lets no time pass: shard time is slewed to the new time as well (Observer.ClockSet), and the
// next process starts with the new time. Time during which the machine was suspended has passed (Config.Suspended).
// Where that is unknown, as on systems other than Linux, windows last that much longer.
//
// Monotonic time stands still while a machine is suspended. When shard time is more than 400 ms behind the reference,
// the epoch ends and the next one starts at the reference again (R18). Requests decided before that is noticed are
// stamped with the old time. This machine's clock is watched, too: more than 200 ms off the reference is reported
// (Observer.ClockOff), an owner 400 ms ahead is asked to hand the shard over (Observer.HandOver), and 10 s off should
// stop the node (Observer.ClockWrong).
//
// The epoch of an only voter does not open more than 24 h past the last stamp without Config.AcceptStep, neither at a
// start nor after a suspend.
//
// # Memory
//
// Config.Room says how much of the memory for records is used, before a batch is evaluated (shard/room.go says what is
// refused then). So a shard's excess is at most one batch. No record is dropped before its
// time. Observer.Full reports it.
//
// # Top
//
// The loop counts the keys of each batch in a top.Board, after the batch went to the proposer, so that the commit hides
// the time that it takes. Top reads it through the loop. A batch with a failed entry is counted as well. The board is
// emptied when an epoch opens after another node's.
//
// # Ticks
//
// Work that no event triggers (the next EpochOpen, a sum entry, a look at the clocks) is done at a tick, every
// Config.OpenEvery. All actors of a process tick at the same instants, so that an idle node wakes once for all of its
// shards.
//
// # Defects
//
// If the evaluation of a request panics, only that request fails (shard.Fault). The epoch continues, and Observer.Fault
// reports it.
//
// # Concurrency
//
// Submit, Handover, Top, Open, Epoch and Hint may be called by any number of goroutines; Start and Close belong to the
// node.
//
// Ids such as R18 and X7 name rules of docs/rules.md.
package actor
