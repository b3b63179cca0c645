// Package routing sends each request to the shard that owns its keys, and coordinates operations on several shards.
//
// It does not know what a request means or how an owner decides it. It asks package gossip for hints, and package hop
// forwards requests to other nodes. Node wires it to the table and to the local replicas.
//
// # Router
//
// The Router splits a batch of requests by shard and puts the answers back in order. Any number of goroutines may use
// it. It has no goroutines of its own, except for work that operations on several shards leave behind, and for leases.
//
//   - The owner is looked for on this node, then at the Raft leader that the local replica knows, then at the node of
//     the hint, and then at the voters in the table. While no owner is found, one of the waiting callers probes every
//     50 ms; news (Wake, a hint) wakes all of them. Each call has one attempt in flight at a time.
//   - Transient failures that certainly changed nothing are retried until the caller's deadline; a call without a
//     deadline is retried until its context ends. Overloaded is final, because retries must not feed an overload. An
//     Unavailable with a long retry delay (LongWait) is final too: a shard that has stopped reports the reason at once.
//   - A request that changes a shard with several replicas travels in a session (shard.Session), so that an unknown
//     outcome can be asked again elsewhere and counts once. Without a session, the request needs an id. Once an outcome
//     is unknown, only a decision makes it certain: an error of a later copy does not, and neither does a denial that
//     no session remembers.
//   - An attempt is abandoned as soon as another node turns out to be the owner, if all its requests can be repeated.
//   - A shard that does not own a slot says which one does (shard.Moved). The request is asked there, within the
//     caller's deadline, and the Router remembers it until the table's own entry of the slot changes. Which shard owns
//     a slot is for the shards to say; the table and what was learned only lead there. While a slot moves, it is away
//     for a moment: its new shard asks to be asked again, and is, after 10 ms and then less and less often.
//   - An attempt with an unknown outcome stays with its shard. If a session of that shard then answers Moved, no copy
//     was counted or can be, and the request is new at the next shard. With an id it goes on as a copy, since the
//     record of the id has moved along.
//   - Forwarded serves the other nodes: it decides here or forwards once, on evidence, and never retries.
//
// # Operations on several shards
//
// A request with entries on several shards is decided all or nothing, by the protocol of package shard (X4). The Router
// of the node that received the request coordinates it. One of the shards is home, and the others are the legs. If the
// client gave an id, the coordinator first asks home whether there is an outcome already. It then charges all legs at
// once, and then home decides. This takes two sequential commits, or three with the first question. If one of the keys
// has just denied or been refused, the coordinator looks at all shards first and charges none of them for a request
// that is denied or refused again. The caller is answered when home has committed. In the background, the coordinator
// tells the legs the decision, and tells home that the legs know it. This runs in goroutines, at most 256 of them and
// at most two seconds each; Router.Close waits for them. Up to 64 operations of one batch are in flight at the same
// time.
//
// A coordinator may vanish between any two messages. The shards finish its work by themselves: the node of each shard's
// owner checks every 50 ms which duties the shard has (shard.State.Duties) and discharges them (Discharge). So units
// held back by an undecided operation are free again after 5 s, plus one such check, plus a failover if there is one.
// An error means that nothing was counted, unless home was asked to decide and has not answered; then the outcome is
// unknown, and a retry with the same id returns it. The id of an operation that was given up in this way answers
// Unavailable for as long as it is remembered.
//
// The shards of its slots are looked up for each message, since slots may move in between: what the shards remember of
// an operation moves with its slots. A reservation in slots of one shard that are about to part (shard.Spread) is an
// operation, too. A settlement of slots that have parted since gets the answer that home has for it, or else is
// refunded slot by slot.
//
// Check, Count, Partial and Reserve can be such operations, and so can Settle of their results. A Settle takes one
// commit at home and another at the legs. A Settle that is refused if it does not fit (shard.OverageReject) takes three
// commits before the one at the legs when a leg has spent more than it took: home is asked first, then the legs are
// charged the excess, then home decides. If home refuses, the legs that answer have released the excess before the
// caller gets its answer. Peek and Get ask each shard for its part, each at its own instant. A denial shows the other
// shards' limits including the units that they hold back until they hear of it. Manual changes work on one shard only.
//
// # Repeated denials
//
// Where all policies of a check have a DenyCache, a Router repeats a denial that it saw to the same request, for at
// most that long. In Decide and Submit this saves the hop; in Forwarded it saves the owner the evaluation and the log
// entry. The time counts from before the request was sent, and a repeated denial travels with its age
// (shard.Decision.Age), so that caches on successive nodes do not add up. A request that may free capacity drops the
// denials of its keys at each node it passes, once before it is sent and once after it was answered; an operation on
// several shards that gives units back without naming its keys drops all denials. A hit allocates only the answer. It
// waits for no other hit, except while it is counted (Config.Repeated). At most 8,192 denials are kept.
//
// # Leases
//
// Where the policy of a plain check has a Lease, a Router takes units of a key that is asked for often and spends them
// in memory (leases). They stand before the routing in Decide, Submit and Repeat, not in Forwarded. A goroutine for
// each key that has a lease asks for it, renews it in one request with the return of the former one, and returns it at
// the end; Close waits for them, for two seconds at most. A request that changes a key by hand returns its leases at
// each node that it passes, once before it is sent and once after it was answered.
//
// # Sessions
//
// A shard with several replicas may be asked twice for one request: its owner died, or the connection did, and it is
// unknown whether the first copy was counted. So the Router numbers the requests that it sends to such a shard, within
// a session that the shard opened for this node. The shard remembers, for a window of 65,536 numbers, which ones were
// counted, and answers a second copy without counting it. A number ends when its caller has an answer or has given up.
// The next request carries the highest number below which all have ended, and the shard forgets everything up to it.
// One hanging request would block that, so new requests get another session when half of the window is used; there are
// at most four. A shard that does not know a session counts nothing and says so (SessionGone). The Router then opens a
// new session, and a request with an unknown earlier copy stays unknown.
//
// Ids such as X4 and R20 name rules of docs/rules.md.
package routing
