package shard

// CanaryNamespace is the namespace of the keys by which nodes check that counting is exact. Clients cannot send its
// name, so it is in no list of keys.
const CanaryNamespace = "~canary"
