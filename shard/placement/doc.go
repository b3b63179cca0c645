// Package placement says on which shard a key lives. It stands alone, so that clients can know it too without knowing how
// shards work.
//
// It owns one function and the name of the default namespace, both fixed for ever: a key whose shard changed would begin at
// rest. It never knows which node owns a shard, nor how many shards there are.
package placement
