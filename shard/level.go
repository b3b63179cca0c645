package shard

// Level is a feature level: it defines what the formats of records, entries and frames may contain. A cluster's level
// rises when all its nodes can read the next one, and never falls. At any level, a binary reads every format up to its
// own newest. It writes a new format only from that format's level on. The numbers are kept on disk and sent between
// nodes: append new ones, never renumber.
type Level uint32

// LevelFirst is the level of the first release.
const LevelFirst Level = 1
