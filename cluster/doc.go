// Package cluster routes each request to the shard that owns its keys, and keeps track of where each shard lives.
//
// The package owns:
//
//   - the route from a key to its owner (Router)
//   - the membership of the cluster and the location of each shard (Table)
//   - the changes that the table needs (Plan), and the actions that one node or one leader takes to follow it (Reconcile,
//     Align)
//   - the founding of a cluster (Form)
//   - the view of which nodes seem to be present (Gossip, Hints)
//   - the one TCP port between nodes (PeerPort)
//   - the forwarding of requests through that port (Hop)
//   - the reports that nodes give about themselves when asked (Pulse)
//
// Package node wires these parts together. Decisions are made in pure functions here, and node carries them out.
//
// The package does not know what a request means, how an owner decides it, or how an entry is replicated.
//
// # Router
//
// The Router splits a batch of requests by shard and puts the answers back in order. Any number of goroutines may use it.
// It has no goroutines of its own, except for work that operations on several shards leave behind.
//
//   - The owner is looked for on this node, then at the Raft leader that the local replica knows, then at the node of the
//     hint, and then at the voters in the table. While no owner is found, one of the waiting callers probes every 50 ms;
//     news (Wake, a hint) wakes all of them. Each call has one attempt in flight at a time.
//   - Transient failures that certainly changed nothing are retried until the caller's deadline; a call without a
//     deadline is retried until its context ends. Overloaded is final, because retries must not feed an overload. An
//     Unavailable with a long retry delay (LongWait) is final too: a shard that has stopped reports the reason at once.
//   - A request that changes a shard with several replicas travels in a session (shard.Session), so that an unknown
//     outcome can be asked again elsewhere and counts once. Without a session, the request needs an id. Once an outcome
//     is unknown, only a decision makes it certain: an error of a later copy does not, and neither does a denial that no
//     session remembers.
//   - An attempt whose requests can all be repeated is abandoned as soon as another node turns out to be the owner.
//   - Forwarded serves the other nodes: it decides here or forwards once, on evidence, and never retries.
//
// # Operations on several shards
//
// A request whose entries live on several shards is decided all or nothing, by the protocol of package shard (X4). The
// Router of the node that received the request coordinates it. One of the shards is home, and the others are the legs. If
// the client gave an id, the coordinator first asks home whether there is an outcome already. It then charges all legs at
// once, and then home decides. This takes two sequential commits, or three with the first question. If one of the keys
// has just denied or been refused, the coordinator looks at all shards first and charges none of them for a request that
// is denied or refused again. The caller is answered when home has committed. In the background, the legs are told the
// decision, and home is told that the legs know it. This runs in goroutines, at most 256 of them and at most two seconds
// each; Router.Close waits for them. Up to 64 operations of one batch are in flight at the same time.
//
// A coordinator may vanish between any two messages. The shards finish its work by themselves: the node of each shard's
// owner checks every 50 ms which duties the shard has (shard.State.Duties) and discharges them (Discharge). So units held
// back by an undecided operation are free again after 5 s, plus one such check, plus a failover if there is one. An error
// means that nothing was counted, unless home was asked to decide and has not answered; then the outcome is unknown, and
// a retry with the same id returns it. An id whose operation was given up in this way answers Unavailable for as long as
// it is remembered.
//
// Check, Count, Partial and Reserve can be such operations, and so can Settle of their results. A Settle takes one commit
// at home and another at the legs. A Settle that is refused if it does not fit (shard.OverageReject) takes three commits
// before the one at the legs when a leg has spent more than it took: home is asked first, then the legs are charged the
// excess, then home decides. If home refuses, the legs that answer have released the excess before the caller is told.
// Peek and Get ask each shard for its part, each at its own instant. A denial shows the other shards' limits including
// the units that they hold back until they hear of it. Manual changes work on one shard only.
//
// # Repeated denials
//
// Where all policies of a check have a DenyCache, a Router repeats a denial that it saw to the same request, for at most
// that long. In Decide and Submit this saves the hop; in Forwarded it saves the owner the evaluation and the log entry.
// The time counts from before the request was sent, and a repeated denial travels with its age (shard.Decision.Age), so
// that caches on successive nodes do not add up. A request that may free capacity drops the denials of its keys at each
// node it passes, once before it is sent and once after it was answered; an operation on several shards that gives units
// back without naming its keys drops all denials. A hit takes no lock and allocates only the answer. At most 8,192
// denials are kept.
//
// # Sessions
//
// A shard with several replicas may be asked twice for one request: its owner died, or the connection did, and it is
// unknown whether the first copy was counted. So the Router numbers the requests that it sends to such a shard, within a
// session that the shard opened for this node. The shard remembers, for a window of 65,536 numbers, which ones were
// counted, and answers a second copy without counting it. A number ends when its caller has an answer or has given up.
// The next request carries the highest number below which all have ended, and the shard forgets everything up to it. One
// hanging request would block that, so new requests get another session when half of the window is used; there are at
// most four. A shard that does not know a session counts nothing and says so (SessionGone). The Router then opens a new
// session, and a request with an unknown earlier copy stays unknown.
//
// # The table
//
// The source of truth is Table, a document of the system shard. It lists the nodes, the groups, the replicas of each
// group and their roles. It is replaced by compare-and-set only (shard.Swap), and an older version permits nothing that a
// newer one forbids:
//
//	replica    learner -> voter -> leaving -> not listed     and the flags Created and Lost
//	node       active <-> draining -> leaving -> removed     its id stays listed, and is not admitted again
//
// Roles only move forward. A replica's number is used once, across all groups: a vote is kept by name
// (node/shard/number), so a replica that lost its memory returns under another name or not at all. The founders' replicas
// have number 1.
//
// # Levels
//
// Levels holds the feature level (shard.Level) of the cluster: nothing newer is written. It is a document of its own,
// because 0.1.0 drops the table fields that it does not know when it writes the next table. Each node reports the levels
// that its binary knows and the level that its data directory carries. PlanLevels, a pure function that the owner of the
// system shard calls, records these reports and decides when to rise. A rise has two steps, so that at no moment is
// anything written that a listed node could not read, whatever binary it starts with next:
//
//	Next      all listed nodes know the level, for ten minutes or because an operator said so, and answer:
//	          each writes it into its directory, which no older binary opens from then on
//	Cluster   all of them have said so, and the table is fenced (Table.Level)
//
// The fence is needed because the table and the levels are two documents. A plan made before Next, which would register a
// node of an older release, then fails its compare-and-set. From then on, Plan registers no node that does not know
// Table.Level, and gives it no replica. A node's view of the levels may be out of date, and is then lower.
//
// # Plan
//
// Plan computes the table that the controller wants. The node that owns the system shard calls it with the current table
// and its observations. Plan registers nodes that announce themselves, replaces lost replicas and replicas of nodes that
// are silent for longer than the grace period (--replace-after), empties leaving nodes, spreads replicas over zones first
// and nodes second, and names the node that should lead each group. A group changes one replica at a time, a new replica
// joins before an old one leaves, and no change is made that a majority would not survive. Groups have an odd number of
// voters; with two nodes, one voter. Plan is a pure function, and while the nodes do not change, its tables converge.
//
// # Reconcile and align
//
// Reconcile returns the actions that bring one node's disk in line with the table: create, open, close or destroy
// replicas, and record that they were made or are lost. Align returns the actions that bring a group's Raft configuration
// in line with the table. The leader of the group takes them: add a learner, promote one that caught up, remove one that
// leaves (never itself: it transfers the leadership first), and record that it happened. A leader uses a table that it
// read after it began to lead, so never an older one than its predecessor used. Both functions are pure and
// level-triggered: whatever is still undone is found at the next look. A member that the table has never listed is left
// alone, because it may be newer than the table.
//
// # Judge
//
// Judge compares the sums of one replica with those that the voters of its group have reported (R12). The replica agrees
// with a majority, is convicted by one, or there is no verdict because the voters that can report have no majority of
// equal sums. A replica judges only itself. A missing report is no disagreement, and a report that may still arrive is
// awaited.
//
// # Gossip
//
// Gossip wraps memberlist, which no other package uses. It reports which nodes answer, their addresses, their cluster,
// and, as Hints, which node last opened which shard.
//
// All of this is advisory. It may be late or wrong; it never adds or removes a voter, and a node that acts on it must
// cope with the answer "not owner". The truth is in the shards' logs and in the system shard.
//
//   - A node announces its cluster, zone, version, peer and API address, the number of nodes it wants to found a cluster
//     with, and its Formation, in at most 512 bytes. Its id is its name in memberlist. An advertised host replaces the
//     address of every listener, because a proxy or NAT may stand in front. A node without a cluster sees all nodes.
//     Nodes of different clusters refuse each other, whichever node introduces them. The cluster id is not memberlist's
//     label: a label is fixed at the start, and a new node has no id yet.
//   - A hint is {shard, epoch, node}. The highest epoch wins. A hint whose node said "not owner" is dropped, and only a
//     higher epoch replaces it. A new hint is passed on to a few nodes, and nodes that do a full exchange swap all of
//     their hints. Hints of another cluster are ignored.
//   - Alive: the node answers probes. Suspect: it stopped answering without notice; it may be dead, cut off or slow.
//     Left: it said that it is stopping. With three nodes, a silent one is suspect within 2 to 4 seconds.
//   - Seeds and registered nodes that do not answer are tried again: every second while no node was found, and every ten
//     seconds after that, forever. memberlist forgets a lost node after half a minute and would never heal a long
//     partition. Names are resolved each time, and every address behind a name is a seed.
//   - Gossip needs a key of 32 bytes (node refuses to start without one, on loopback too). With a key, packets and
//     streams that do not carry it are refused, and at most GossipConfig.Streams of them are read at one time. Without a
//     key, anyone who reaches the port can crash the process, because memberlist trusts its input.
//
// # Formation
//
// Form is a pure function. It takes what a node kept and which nodes it sees, and returns the node's next step, until the
// node is in a cluster. Among enough fresh nodes, the one with the lowest id proposes a cluster id and founders. Each
// founder accepts the id and keeps it. When all have accepted, the creator says go, and each founder that hears it
// creates its replica of the system shard. A node accepts one id, ever: of several proposals with overlapping founders,
// at most one goes ahead, even if messages are late or lost, and a founder that crashes resumes. Two proposals that block
// each other can both be stuck. This needs more nodes than founders, and a view that misses some of them; the waiting
// nodes then name the data dirs to be emptied. A node that sees an existing cluster joins it, and a node that has seen
// one, even one that is gone, founds no other.
//
// An emptied disk loses the accepted id. Before go this does no harm: the node accepts again, or its proposal is given
// back to it. After go there is one danger: a founder that is emptied, and restarted under its old id just while it sees
// a node that has not heard of go yet, would found again, with a vote that it has forgotten. So after go, empty a disk
// only together with a new id.
//
// # The peer port
//
// Nodes speak to each other through one TCP port: the Raft streams of all groups, forwarded requests, and questions. A
// connection begins with a preamble that names version, kind, cluster, shard, sender and receiver. The preamble, and the
// certificate if there is one, is checked before a byte of anything else is read. A dialer with a wrong preamble is told
// the reason, as a Refusal, and disconnected. Replicas are addressed by name (node/shard/number): votes are kept by it,
// and it stays when addresses change. With certificates, both ends prove with mutual TLS that they are a peer and which
// node they are. Without certificates, the port listens on loopback only, unless it is told to be insecure. A node does
// not start with a certificate of its own that has expired or is not valid yet, and never replaces a good certificate
// with such a one. Connections that have not identified themselves get at most a quarter of the connections, for 3 s
// each.
//
// # The hop
//
// A Hop forwards requests to the node that owns them, over one connection to each node. All calls that wait when the
// connection becomes free go into one frame, so frames grow with the load and no timer delays a request. The remaining
// time until the caller's deadline travels with each call. At the receiving end, calls of one frame to one shard with the
// same operation and a similar remaining time become one submission. Calls in flight are bounded, and a shard that does
// not answer takes at most half of the room. Both ends send heartbeats; a connection that is silent for 2 s is given up.
// When a connection breaks, calls that it had not sent were certainly not executed; calls that it had sent have an
// unknown outcome. A stopping node answers the calls that it began and names those that it did not begin. A request is
// forwarded at most twice. Hop.Stats counts calls, requests and frames.
//
// # The pulse
//
// A Pulse asks every other node for a Report twice a second, over a separate connection to each (PeerPort.DialAsk).
// Reports are hints, as gossip is, but fresher and larger: they carry the state of the node's replicas, and the table,
// the policies and the levels if these are newer than the asker's. A Question is at most 4 KiB of JSON and a Report at
// most 2 MiB. An exchange takes at most 2 s, and a node that hangs delays no other. Silent counts only time in which this
// process was asking.
//
// Offset compares this machine's clock with the median of a majority whose clocks agree within 600 ms; if there is none,
// it returns no value. Each exchange compares the other clock with ours halfway between question and report, so its error
// is at most half the round trip. Measurements older than 5 s do not count, those with a round trip above 200 ms count
// only if there is no better one, and those above 800 ms never count.
//
// # Concurrency
//
// PeerPort, Stream, Hop and Pulse may be used by any number of goroutines. A HopHandler and PeerConfig.Answer are called
// concurrently; so are the functions of a PulseConfig for different nodes.
//
// A Gossip and Hints may be used by any number of goroutines. Hints.Lookup takes no lock. memberlist's callbacks only
// write to a list and a queue: they never block and never call back. OnChange runs in one goroutine, after changes, and
// must not call Stop. Stop takes about a second at most when no node answers; none of our goroutines outlives it, and a
// memberlist probe that was in flight ends by itself within seconds.
//
// Ids such as X4 and R20 name rules of docs/guarantees.md.
package cluster
