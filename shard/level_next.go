//go:build nextlevel

package shard

// LevelNewest is the level after the newest one, in builds for the tests of an upgrade: see `make upgrade`. Nothing else is new in
// such a build, but that each entry says in its first byte at which level it was written.
const LevelNewest = LevelFirst + 1
