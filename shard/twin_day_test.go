//go:build !nightly

package shard

// twinOperations is how many requests TestEveryDecisionIsTheTwins makes.
const twinOperations = 125_000
