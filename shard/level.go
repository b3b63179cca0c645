package shard

// Level is a feature level: it defines what the formats of records, entries and frames may contain. A cluster's level
// rises when all its nodes can read the next one, and never falls. At any level, a binary reads every format up to its own
// newest. It writes a new format only from that format's level on. The numbers are kept on disk and sent between nodes:
// append new ones, never renumber.
type Level uint32

const (
	// LevelFirst is 0.1.0, and every node that reports no level.
	LevelFirst Level = 1
	// LevelSound is the release that tolerates bad bits, bad records and old logs.
	LevelSound Level = 2
	// LevelTrust has tokens and backups. Nodes below it would serve requests without asking for a token.
	LevelTrust Level = 3
	// LevelBill has meters.
	LevelBill Level = LevelTrust + 1
	// LevelNotify has thresholds, events, sinks, soft limits and corrections of bills.
	LevelNotify Level = LevelBill + 1

	// LevelNewest is the newest level that this build reads. It writes that level in a cluster that has reached it.
	LevelNewest = LevelNotify
)
