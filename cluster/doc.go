// Package cluster takes a request to the shard that owns its keys, and knows where that is.
//
// What it owns: the way from a key to an Owner (Router), who seems to be here (Gossip, Hints), the one TCP port between
// nodes (PeerPort) and the hop of forwarded requests through it (Hop). Today every shard has its owner in this process
// and only the Router is wired; the other rooms are whole and tested, and wait for the system shard.
//
// What it never knows: what a request means, how an owner decides it, and how an entry is replicated.
//
// # Router
//
// The Router splits what came together by shard and puts the answers back into their places. It may be used by any
// number of goroutines.
//
// # Gossip: who seems to be here
//
// Gossip wraps memberlist, and this package is its only door. It tells which nodes answer, where they are reached,
// which cluster they belong to, and, as Hints, who last opened which shard.
//
// Everything it says is a hint. It may be late or wrong; it never adds or removes a voter, and a node that acts on it
// must bear being told "not owner". The truth is in the shards' logs and in the system shard.
//
//   - A node announces its cluster, zone, version, peer and API address in at most 512 bytes; its id is its name in
//     memberlist. A node without a cluster sees everybody. Nodes of two clusters refuse each other, whoever brings
//     them together. The cluster id is not memberlist's label: a label is fixed at the start, and a newcomer has no
//     id yet.
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
// # The peer port
//
// Nodes speak to each other through one TCP port: the Raft streams of all groups, and forwarded requests. A connection
// begins with a preamble that names version, kind, cluster, shard, and who wants to speak to whom. It is checked, with
// the certificate if there is one, before a byte of anything else is read; who is wrong is told why, as a Refusal, and
// hung up on. Replicas are called by name (node/shard/number): votes are kept by it, and it stays when addresses
// change. With certificates, both ends prove with mutual TLS that they are a peer and which node; without them the
// port listens on loopback only, unless it is told to be insecure.
//
// # The hop
//
// A Hop forwards requests to the node that owns them, over one connection to each node. Whatever waits when the
// connection is free goes into one frame, so frames grow with the load and no timer delays a request. What is left of
// the caller's deadline travels with it. Calls under way are bounded, and a shard that does not answer takes half of
// the room at most. Both ends beat; a connection that is silent for 2 s is given up. What a broken connection had not
// sent was certainly not executed; what it had sent is an unknown outcome. A node that stops answers what it began and
// names what it did not. A request is forwarded twice at most.
//
// PeerPort, Stream and Hop may be used by any number of goroutines. A HopHandler is called concurrently.
//
// A Gossip and Hints may be used by any number of goroutines. Hints.Lookup takes no lock. memberlist's callbacks only
// write to a list and a queue: they never block and never call back. OnChange runs in one goroutine, after changes,
// and must not call Stop. Stop takes about a second at most when nobody answers; none of our goroutines outlives it,
// and a probe of memberlist's that was under way ends by itself within seconds.
package cluster
