// Package lab runs a cluster of real stint processes on this machine's loopback and makes things fail around them:
// processes are killed, paused and restarted, links between them are cut, clocks jump, disks fail or are wiped.
//
// It serves `stint verify --local` and the chaos tests. It knows nothing of ours but the command line of `stint serve`,
// /readyz, and the first bytes of a peer connection, which name the node that dials.
//
// Addresses. A cluster has a subnet 127.77.k.0/24 of its own, node i listens on 127.77.k.i, and every node has the
// ports 7400 (API), 7401 (peers) and 7402 (gossip). What a node announces to the others is not its own address but
// 127.77.k.(100+i), where this package listens and passes on what comes: TCP for the peer port, TCP and UDP for gossip.
// So every byte between two nodes goes through here and can be held, per ordered pair. Clients reach the API directly.
// With Options.Direct there is nothing in between, and no link to cut.
//
// A cut link is a network that swallows packets, not one that refuses: bytes are held until the link heals, the
// connection stays, a new one never gets an answer. A datagram is lost.
//
// All methods of a Cluster may be called concurrently. Close ends every process and waits for every goroutine.
package lab
