package connlimit

import "syscall"

// Shares has the number of descriptors that each part of a node may have open.
type Shares struct {
	API    int // connections to the API's port and gRPC's port together
	Redis  int // connections to the port of the Redis protocol
	Peers  int // connections from other nodes; those to other nodes are at most as many
	Gossip int // concurrent streams of gossip
	Tables int // files of the log that are kept open
}

// Descriptors returns the number of files that this process may have open. The Go runtime has already raised the bound
// as far as it may.
func Descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // the usual bound of POSIX machines
	}
	return uint64(limit.Cur)
}

// Least is the number of descriptors that a node needs. With fewer, its log might find none left.
const Least = 256

const (
	ownMost     = 1024
	clientsMost = 10_000 // of each kind
	peersMost   = 4096   // room for 256 groups with four streams from each of three peers
	gossipMost  = 64
	tablesMost  = 1000
)

// Share divides the descriptors. Half of them, at most 1,024, are for the node itself. Peers and the log's
// files also share the rest that the clients leave.
func Share(descriptors uint64) Shares {
	all := int(min(descriptors, 1<<30))
	own := min(ownMost, all/2)
	clients := min(clientsMost, (all-own)/2)
	spare := all - own - 2*clients
	return Shares{
		API:    clients,
		Redis:  clients,
		Peers:  min(peersMost, own/4+spare/4),
		Gossip: min(gossipMost, own/16),
		Tables: min(tablesMost, own/4+spare/4),
	}
}
