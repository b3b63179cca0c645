// Package connlimit keeps strangers' connections from using up the descriptors that the node itself needs. A process has
// a bound on open files, its disk takes from the same bound, and a log that cannot open its next file ends the process.
// Every port therefore has a bound on its connections, and all the bounds together leave the disk its part.
//
// It owns the division of the process's descriptors (Share), the number of connections per port and address (Tally), and
// the behavior at a port's bound (Limit). It never knows the data on a connection.
//
// # At the bound
//
// A Limit belongs to one kind of client and may have several listeners. One address may hold a quarter of it, so it takes
// several addresses to fill a port. An IPv6 address counts with its whole /64. Connections from this machine are exempt.
// A connection beyond the bound is told the reason, if its protocol has a way to. It is closed when its client hangs up,
// after at most two seconds, or when other connections are waiting to be told. A client that was still sending to a
// closed connection would see that it broke, but not the reason.
//
// From nine tenths of the bound on, the connections that were silent for longest are closed to make room, if they were
// silent for at least ten seconds. A sleeping pool thus makes room for active clients, and a flood of new connections
// cuts no client in the middle of its work.
//
// Where clients have to prove who they are, those that have not yet hold at most an eighth of the bound for long: of more,
// the oldest are closed, those younger than ten seconds only from nine tenths of the bound on. Whoever tells a client from a stranger says so by Prover.
//
// Only Close ends a listener; no error of Accept does. If the machine has no descriptor left, Accept waits for one.
//
// The time of the last read is noted only while about half of a port or more is taken. Below that it costs nothing.
//
// All exported functions and methods may be called concurrently. The only goroutines are one for each of the few
// connections that are being told the reason.
package connlimit
