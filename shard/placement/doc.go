// Package placement maps keys to shards. It is separate from package shard, so that clients can place keys without
// depending on it.
//
// It owns one function and the name of the default namespace. Both are fixed forever, because a key that moved to another
// shard would start at rest. It does not know which node owns a shard, nor how many shards there are.
//
// An id such as X1 names a rule of docs/guarantees.md.
package placement
