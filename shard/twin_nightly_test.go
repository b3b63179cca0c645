//go:build nightly

package shard

// twinOperations is the number of requests that TestEveryDecisionIsTheTwins makes. Run it with -timeout 60m.
const twinOperations = 20_000_000
