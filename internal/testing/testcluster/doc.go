// Package testcluster runs a cluster of real stint processes on this machine's loopback and makes faults around them:
// it kills, pauses and restarts processes, cuts links between them, makes clocks jump, and makes disks fail or wipes
// them.
//
// It serves `stint tool verify --local` and the tests: Run starts a cluster that ends with its test, of the binary that
// Binary links once for all packages. A Cluster knows only these parts of stint: the command line of `stint serve`, and
// /readyz.
//
// Addresses. A cluster has its own subnet 127.77.k.0/24. Node i listens on 127.77.k.i, and every node has the ports
// 7400 (API), 7401 (peers) and 7402 (gossip). A node announces to the others not its own address but 127.77.k.(100+i),
// where this package listens and relays the traffic: TCP for the peer port, TCP and UDP for gossip. So every byte
// between two nodes passes through this package, which can hold it, per ordered pair. Clients reach the API directly.
// With Options.Direct there is no relay, and no link to cut.
//
// A cut link is a network that swallows packets, not one that refuses them: bytes are held until the link heals,
// existing connections stay, and a new one never gets an answer. Datagrams are lost.
//
// All methods of a Cluster may be called concurrently. Close ends every process and waits for every goroutine.
package testcluster
