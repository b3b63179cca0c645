// Package memnet connects names inside one process, for tests: stream layers without sockets, which work in
// testing/synctest bubbles too, and the ways in which a real network fails.
//
// What it owns: names, connections between them, and what happens on the way: cuts of one direction that stall silently,
// as a partition does (Cut), cuts that end connections (Break, Isolate), delays, and losses, which on a stream are delays
// until the next transmission. What it never knows: Raft, and what the bytes mean. Names are any strings. Where a method
// takes from and to, each of them stands for the name itself and for all names that begin with it: "" is everybody, and
// "n1/" all replicas of node n1 (without the slash also n10).
//
// All methods may be called concurrently. Whoever waits here waits on channels and timers, and no lock is held meanwhile.
package memnet
