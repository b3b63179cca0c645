//go:build nightly

package shard

// twinOperations is how many requests TestEveryDecisionIsTheTwins makes. Run it with -timeout 60m.
const twinOperations = 20_000_000
