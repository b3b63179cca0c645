// Package memnet connects the replicas of a group inside one process, for tests: stream layers without sockets, which
// work in testing/synctest bubbles too.
//
// What it owns: names, connections between them, and which names are cut off. What it never knows: Raft, and what the
// bytes mean. Its methods may be called concurrently.
package memnet
