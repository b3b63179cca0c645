package shard

// CanaryNamespace is the namespace of the keys by which nodes check that counting is exact. Its name is none that a client can send,
// so it is in no list of keys.
const CanaryNamespace = "~canary"
