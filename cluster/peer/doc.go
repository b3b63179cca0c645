// Package peer is the one TCP port between nodes, and the questions that nodes ask each other through it.
//
// # The peer port
//
// Nodes speak to each other through one TCP port: the Raft streams of all groups, forwarded requests, and questions. A
// connection begins with a preamble that names version, kind, cluster, shard, sender and receiver. The preamble, and
// the certificate if there is one, is checked before a byte of anything else is read. A dialer with a wrong preamble is
// told the reason, as a Refusal, and disconnected. Replicas are addressed by name (node/shard/number): votes are kept
// by it, and it stays when addresses change. With the cluster key or with certificates, both ends prove with mutual TLS
// that they are a peer and which node they are. With neither, the port listens on loopback only, unless it is told to
// be insecure. A node does not start with a certificate of its own that has expired or is not valid yet, and never
// replaces a good certificate with such a one. Connections that have not identified themselves get at most a quarter of
// the connections, for 3 s each.
//
// # The cluster key
//
// A ClusterKey is lines of 32 bytes. From each line every node derives a key for gossip and an authority, with which it
// issues its own certificate in memory. The first line sends, all are accepted. A KeyFile follows the file while the
// node runs. When a line is removed, what it has proven ends (Port.Recheck).
//
// # Which nodes may connect
//
// Config.Listing says what the newest table says of a node. Raft streams and forwarded requests are for listed nodes,
// in both directions; an unlisted node may ask, and a removed one nothing. The check comes before the connection is
// registered, and again after it: a table that is learned in between is not missed. Recheck cuts what a newer table no
// longer admits. Only listed nodes hear, in a refusal, what this node has instead.
//
// # The health probe
//
// A HealthProbe asks every other node for a Report twice a second, over a separate connection to each (Port.DialAsk).
// Reports are hints, as gossip is, but fresher and larger: they carry the state of the node's replicas, and the table,
// the policies and the levels if these are newer than the asker's. A Question is at most 4 KiB of JSON and a Report at
// most 2 MiB. An exchange takes at most 2 s, and a node that hangs delays no other. Silent counts only time in which
// this process was asking. Ask sends another question over the same connection.
//
// Offset compares this machine's clock with the median of a majority with clocks that agree within 600 ms; if there is
// none, it returns no value. Each exchange compares the other clock with ours halfway between question and report, so
// its error is at most half the round trip. Measurements older than 5 s do not count, those with a round trip above 200
// ms count only if there is no better one, and those above 800 ms never count.
//
// # Death
//
// The port knows how connections of other nodes end. When all that are read here end at once, by an EOF or a reset,
// and the node has not said in a Question that it stops, Config.Silent is called. IsDead then dials the node as well:
// what lives takes connections (R10a).
//
// # Watch
//
// A node with a client that watches decisions asks each listed node for its own (Watch): the ask connection carries
// batches of them from then on. The asked node keeps the newest 1,024 that wait and tells how many it has dropped. The
// connection ends with either end, and with the port.
//
// # Concurrency
//
// Port, Stream and HealthProbe may be used by any number of goroutines. Config.Answer is called concurrently; so are
// the functions of a HealthProbeConfig for different nodes.
//
// Ids such as X4 and R20 name rules of docs/rules.md.
package peer
