//go:build !nightly

package shard

// twinOperations is the number of requests that TestEveryDecisionIsTheTwins makes.
const twinOperations = 10_000
