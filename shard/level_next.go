//go:build nextlevel

package shard

// LevelNewest is the level after the newest one, in builds for the tests of an upgrade: see `make upgrade`. Such a
// build differs only in the first byte of each entry, which has the level at which it was written.
const LevelNewest = LevelFirst + 1
