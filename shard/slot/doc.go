// Package slot maps keys to slots, and slots to shards. It is separate from package shard, so that clients can find the
// owner of a key without depending on it.
//
// It owns the function from keys to slots, which is fixed forever: a key in another slot would start at rest. The Map
// from slots to shards is a part of the cluster's table, and changes when a slot moves. The package does not know which
// node owns a shard.
//
// An id such as X1 names a rule of docs/rules.md.
package slot
