// Package cluster takes a request to the shard that owns its keys, and knows where that is.
//
// What it owns: the way from a key to an owner (Router), who belongs to the cluster and where each shard lives (Table),
// what should change about that (Plan) and what one node or one leader does about it (Reconcile, Align), who founds a
// cluster (Form), who seems to be here (Gossip, Hints), the one TCP port between nodes (PeerPort), the hop of forwarded
// requests through it (Hop), and what nodes say about themselves when asked (Pulse). Package node wires all of it: the
// rooms that decide are pure functions, and node carries out what they say.
//
// What it never knows: what a request means, how an owner decides it, and how an entry is replicated.
//
// # Router
//
// The Router splits what came together by shard and puts the answers back into their places. It may be used by any
// number of goroutines, and has none of its own but for what operations on several shards leave to be done.
//
//   - The owner is sought here, at the Raft leader that our replica knows, at the node of the hint, and then at the
//     voters of the table. While nobody is found, one of all who wait asks around every 50 ms; news (Wake, a hint) wake
//     them all. There is one attempt at a time for each call.
//   - Failures that certainly changed nothing and pass are retried until the caller's deadline; a call without one is
//     retried until its context ends. Overloaded is final: retries must not feed an overload.
//   - What changes a shard with several replicas travels in a session (shard.Session), so that an unknown outcome can be
//     asked again elsewhere and counts once; without a session it takes an id. Once an outcome was unknown, only a
//     decision makes it certain: an error of a later copy does not, nor does a denial that no session remembers.
//   - An attempt whose requests may all be repeated is given up as soon as another node turns out to be the owner.
//   - Forwarded serves the other nodes: it decides here or passes on once, on evidence, and never retries.
//
// # Operations on several shards
//
// A request whose entries live on several shards is decided all or nothing, by the protocol of package shard (SEMANTICS
// X4). The Router of the node that was asked coordinates it: with a client's id it first asks home whether there is an
// outcome; it has all legs charged at once; then home decides. That is two commits, one after the other, or three. The
// caller is answered when home has committed. Behind his back the legs hear what was decided, and home that they have:
// in goroutines, 256 at most and two seconds each, that Router.Close waits for. Operations of one batch are under way at
// the same time, 64 of them.
//
// A coordinator may vanish between any two messages. What it leaves the shards do by themselves: the node of each
// shard's owner looks every 500 ms what the shard owes (shard.State.Duties) and has it done (Discharge). So what an
// undecided operation holds back is free again after 5 s, one such look, and a failover if there is one. An error says
// that nothing was counted, unless home was asked to decide and has not answered: then it is unknown, and the same id
// asked again tells. An id whose operation was given up so is Unavailable for as long as it is remembered.
//
// Check, Count, Partial and Reserve are such operations, and Settle of what they made. Peek and Get ask each shard for its
// part, at instants of its own. A denial shows the other shards' limits with what they hold back until they have heard of
// it. Changes by hand are for one shard.
//
// # Denials that are repeated
//
// Where all policies of a check have a DenyCache, a Router repeats a denial that it saw to the same request for that long
// at most: in Decide and Submit, which saves the hop, and in Forwarded, which saves the owner the evaluation and the log.
// The time counts from before the request was sent, and a denial that was repeated travels with its age
// (shard.Decision.Age), so that nodes one behind the other do not add up. What may make room drops the denials of its
// keys at each node it passes, before it is sent and after it was answered; an operation on several shards that gives
// something back drops all. A hit takes no lock and no memory but the answer's. 8,192 denials are kept at most.
//
// # Sessions
//
// A shard with several replicas may be asked twice for one request: its owner died, or the connection did, and nobody
// knows whether the first copy was counted. So the Router numbers what it sends to such a shard, within a session that
// the shard opened for this node. The shard remembers, for a window of 65,536 numbers, which ones were counted, and
// answers a second copy without counting it. A number ends when its caller has an answer or has given up, and the
// newest number below which all ended travels with the next request: the shard forgets the rest. A request that hangs
// would stop that, so new requests get another session when half of the window is used, of four at most. A shard that
// does not know a session counts nothing and says so (SessionGone); the session is then opened anew, and a request of
// which an earlier copy is unknown stays unknown.
//
// # The table
//
// The truth is a document of the system shard, Table: the nodes, the groups, the replicas of each, and what they are for.
// It is replaced by compare-and-set only (shard.Swap), and whoever reads an older one finds nothing in it that a newer
// one forbids:
//
//	replica    learner -> voter -> leaving -> not listed     besides: made, lost
//	node       active <-> draining -> leaving -> removed     its id stays listed, and is not admitted again
//
// Roles only go forward. Replicas get a number that is used once, in all groups: a vote is kept by name
// (node/shard/number), and a replica that lost its memory comes back under another name or not at all. The founders'
// replicas have number 1.
//
// # Plan
//
// Plan is what the controller wants: the node that owns the system shard calls it with the table and with what it sees. It
// registers who announces itself, replaces replicas that are lost and those of nodes that are silent for longer than the
// grace (--replace-after), empties nodes that leave, spreads replicas over zones first and nodes second, and says which
// node should lead each group. A group changes one replica at a time, a new one is in before an old one leaves, and
// nothing changes that a majority would not survive. Groups have an odd number of voters: with two nodes, one. It is
// a pure function, and with nodes that do not change its tables come to rest.
//
// # Reconcile and align
//
// Reconcile says what one node does so that its disk is what the table wants: create, open, close or destroy replicas, and
// record that they were made or are lost. Align says what the leader of a group does so that its Raft configuration is
// what the table wants: add a learner, promote one that caught up, take out one that leaves (never itself: it gives the
// leadership away first), and record that it happened. A leader goes by a table that it read after it began to lead, so
// never by an older one than its predecessor. Both are pure, and both work on levels: what was not done is found undone
// at the next look. A member that the table has never listed is left alone: it may be newer than the table.
//
// # Gossip: who seems to be here
//
// Gossip wraps memberlist, and this package is its only door. It tells which nodes answer, where they are reached,
// which cluster they belong to, and, as Hints, who last opened which shard.
//
// Everything it says is a hint. It may be late or wrong; it never adds or removes a voter, and a node that acts on it
// must bear being told "not owner". The truth is in the shards' logs and in the system shard.
//
//   - A node announces its cluster, zone, version, peer and API address, how many nodes it wants to found a cluster
//     with, and its Formation, in at most 512 bytes; its id is its name in memberlist. An advertised host takes the place
//     of whatever addresses it listens on: a proxy or NAT may stand in front. A node without a cluster sees everybody.
//     Nodes of two clusters refuse each other, whoever brings them together. The cluster id is not memberlist's label: a
//     label is fixed at the start, and a newcomer has no id yet.
//   - A hint is {shard, epoch, node}. The highest epoch wins. A hint whose node said "not owner" is dropped, and only
//     a higher epoch replaces it. A hint that is news is told on to a few nodes; nodes that meet exchange all of
//     them. Hints of another cluster are not taken.
//   - Alive: it answers probes. Suspect: it stopped answering without a word; it may be dead, cut off or slow.
//     Left: it said that it stops. With three nodes a silent one is suspect within 2 to 4 seconds.
//   - Seeds and registered nodes at which nobody answers are tried again, every second while nobody was found and
//     every ten seconds for ever after: memberlist forgets a lost node after half a minute and would never heal a
//     long cut. Names are looked up each time, and every address behind a name is a seed.
//   - Off loopback, gossip needs a key of 32 bytes. With a key, packets and streams that do not carry it are refused.
//     Without one, whoever reaches the port can crash the process: memberlist trusts what it reads.
//
// # Formation
//
// Form is a pure function from what a node kept and whom it sees to what it does next, until it is in a cluster. The
// lowest of enough fresh nodes proposes a cluster id and founders; each founder takes the id and keeps it; when all
// have, the creator says go; who was told creates its replica of the system shard. A node takes one id, ever: of
// proposals whose founders overlap one goes at most, whatever was heard late or not at all, and whoever crashes resumes.
// Two that got in each other's way can both be stuck, which needs more nodes than founders, and a view that misses
// some; the waiting nodes then name the data dirs to be emptied. Whoever sees a cluster that exists joins it, and who
// has seen one, even one that is gone, founds no other.
//
// An id on an emptied disk is not kept. Before go that does no harm: the node accepts again, or its proposal is given
// back to it. A founder that is emptied and started under its old id within the moment in which it sees somebody who
// has not heard of go yet would found again, with a vote it has forgotten: empty a disk after go only under a new id.
//
// # The peer port
//
// Nodes speak to each other through one TCP port: the Raft streams of all groups, forwarded requests, and questions. A
// connection begins with a preamble that names version, kind, cluster, shard, and who wants to speak to whom. It is
// checked, with the certificate if there is one, before a byte of anything else is read; who is wrong is told why, as a
// Refusal, and hung up on. Replicas are called by name (node/shard/number): votes are kept by it, and it stays when
// addresses change. With certificates, both ends prove with mutual TLS that they are a peer and which node; without them
// the port listens on loopback only, unless it is told to be insecure.
//
// # The hop
//
// A Hop forwards requests to the node that owns them, over one connection to each node. Whatever waits when the
// connection is free goes into one frame, so frames grow with the load and no timer delays a request. What is left of
// the caller's deadline travels with it. At the other end, calls of one frame to one shard that ask for the same and have
// about as much time become one submission. Calls under way are bounded, and a shard that does not answer takes half of
// the room at most. Both ends beat; a connection that is silent for 2 s is given up. What a broken connection had not
// sent was certainly not executed; what it had sent is an unknown outcome. A node that stops answers what it began and
// names what it did not. A request is forwarded twice at most. Hop.Stats counts calls, requests and frames.
//
// # The pulse
//
// A Pulse asks every other node twice a second how it is, over a connection of its own to each (PeerPort.DialAsk), and
// hands on the Reports. They are hints, as gossip is, but fresher and larger: what its replicas do, and the table and
// the policies if they are newer than the asker's. A Question is at most 4 KiB of JSON and a Report 2 MiB; an exchange
// takes 2 s at most, and a node that hangs delays nobody but itself. Silent counts only time in which this process was
// asking. Offset compares this machine's clock with the median of a majority whose clocks agree within 600 ms, and is
// silent where none does: each exchange measures the other clock against ours half way between question and report, which
// is wrong by half the round trip at most; what is older than 5 s does not count, what took longer than 200 ms only if
// nothing better is there, and what took longer than 800 ms never.
//
// PeerPort, Stream, Hop and Pulse may be used by any number of goroutines. A HopHandler and PeerConfig.Answer are called
// concurrently; so are the functions of a PulseConfig for different nodes.
//
// A Gossip and Hints may be used by any number of goroutines. Hints.Lookup takes no lock. memberlist's callbacks only
// write to a list and a queue: they never block and never call back. OnChange runs in one goroutine, after changes,
// and must not call Stop. Stop takes about a second at most when nobody answers; none of our goroutines outlives it,
// and a probe of memberlist's that was under way ends by itself within seconds.
package cluster
