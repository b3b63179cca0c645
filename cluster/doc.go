// Package cluster takes a request to the shard that owns its keys.
//
// What it owns: the way from a key to an Owner. Today every shard has its owner in this process; the Router splits what
// came together by shard and puts the answers back into their places. Membership, placement and the hop to another node
// are rooms of this package that are not built yet.
//
// What it never knows: what a request means, and how an owner decides it.
//
// A Router may be used by any number of goroutines.
package cluster
