//go:build !nextlevel

package shard

// LevelNewest is the newest level that this build reads. It writes that level in a cluster that has reached it.
const LevelNewest = LevelFirst
