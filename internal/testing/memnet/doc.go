// Package memnet connects names inside one process, for tests. It provides stream layers without sockets, which also
// work in testing/synctest bubbles, and simulates the failures of a real network.
//
// It owns names, the connections between them, and the faults on the way: one-directional cuts that stall silently, as
// a partition does (Cut), cuts that end connections (Break, Isolate), delays, and losses, which on a stream are delays
// until the retransmission. It knows nothing of Raft or of the meaning of the bytes. Names are any strings. Where a
// method takes from and to, each of them matches the name itself and all names that begin with it: "" matches every
// name, and "n1/" all replicas of node n1 (without the slash, n10 too).
//
// All methods may be called concurrently. Waiting calls wait on channels and timers, and hold no lock meanwhile.
package memnet
