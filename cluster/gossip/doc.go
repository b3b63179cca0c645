// Package gossip tracks which nodes seem to be present and which node last opened a shard, and founds a cluster.
//
// # Gossip
//
// Gossip wraps memberlist, which no other package uses. It reports which nodes answer, their addresses, their cluster,
// and, as Hints, which node last opened which shard.
//
// All of this is advisory. It may be late or wrong; it never adds or removes a voter, and a node that acts on it must
// cope with the answer "not owner". The truth is in the shards' logs and in the system shard.
//
//   - A node announces its cluster, zone, version, peer and API address, the number of nodes it wants to found a
//     cluster with, and its Formation, in at most 512 bytes. Its id is its name in memberlist. An advertised host
//     replaces the address of every listener, because a proxy or NAT may stand in front. A node without a cluster sees
//     all nodes. Nodes of different clusters refuse each other, whichever node introduces them. The cluster id is not
//     memberlist's label: a label is fixed at the start, and a new node has no id yet.
//   - A hint is {shard, epoch, node}. The highest epoch wins. A hint is dropped when its node answers "not owner", and
//     only a higher epoch replaces it. A new hint is passed on to a few nodes, and nodes that do a full exchange swap
//     all of their hints. Hints of another cluster are ignored.
//   - Alive: the node answers probes. Suspect: it stopped answering without notice; it may be dead, cut off or slow.
//     Left: it said that it is stopping. With three nodes, a silent one is suspect within 2 to 4 seconds.
//   - Seeds and registered nodes that do not answer are tried again: every second while no node was found, and every
//     ten seconds after that, forever. memberlist forgets a lost node after half a minute and would never heal a long
//     partition. Names are resolved each time, and every address behind a name is a seed.
//   - Gossip needs a key of 32 bytes (node refuses to start without one, on loopback too). With keys, packets and
//     streams under none of them are refused, and at most Config.Streams streams are read at one time. The first key
//     sends; SetKeys replaces them at run time. Without a key, anyone who reaches the port can crash the process,
//     because memberlist trusts its input.
//
// # Formation
//
// Form is a pure function. It takes a node's kept state and the nodes that it sees, and returns the node's next step,
// until the node is in a cluster. Among enough fresh nodes, the one with the lowest id proposes a cluster id and
// founders. Each founder accepts the id and keeps it. When all have accepted, the creator says go, and each founder
// that hears it creates its replica of the system shard. A node accepts one id, ever: of several proposals with
// overlapping founders, at most one goes ahead, even if messages are late or lost, and a founder that crashes resumes.
// Two proposals that block each other can both be stuck. This takes more nodes than founders, and a view that misses
// some of them; the waiting nodes then name the data directories to empty. A node that sees an existing cluster joins
// it, and a node that has seen one, even one that is gone, founds no other.
//
// An emptied disk loses the accepted id. Before go this does no harm: the node accepts again, or its proposal is given
// back to it. After go there is one danger: a founder that is emptied, and restarted under its old id while it sees a
// node that has not heard of go yet, would found again, having forgotten its vote. So after go, empty a disk only
// together with a new id.
//
// # Concurrency
//
// A Gossip and Hints may be used by any number of goroutines. Hints.Lookup takes no lock. memberlist's callbacks only
// write to a list and a queue: they never block and never call back. OnChange runs in one goroutine, after changes, and
// must not call Stop. Stop takes about a second at most when no node answers; it waits for all our goroutines, and a
// memberlist probe that was in flight ends by itself within seconds.
//
// Ids such as X4 and R20 name rules of docs/rules.md.
package gossip
