// Package connlimit keeps clients from using up the descriptors that the node itself needs. A process has a bound on
// open files, its disk takes from the same bound, and a log that cannot open its next file ends the process. Every port
// therefore has a bound on its connections, and all the bounds together leave the disk its part.
//
// It owns the division of the process's descriptors (Share), the number of connections per port and address (Tally),
// or of anything else that one client may not have alone (Bound), and the behavior at a port's bound (Limit). It never
// knows the data on a connection.
//
// # At the bound
//
// A Limit belongs to one kind of client and may have several listeners. One address may hold a quarter of it, so it
// takes several addresses to fill a port. An IPv6 address counts with its whole /64. Connections from this machine are
// exempt. A connection beyond the bound gets the reason, if its protocol has a way to send it. It is closed when its
// client hangs up, after at most two seconds, or when other connections are waiting for their answer. A client that was
// still sending to a closed connection would see that it broke, but not the reason.
//
// Once nine tenths of the bound are taken, the connections that were silent for longest are closed to make room, if
// they were silent for at least ten seconds. A sleeping pool thus makes room for active clients, and a flood of new
// connections cuts no client in the middle of its work.
//
// On ports that require authentication, unauthenticated clients hold at most an eighth of the bound for long: above
// that, the oldest are closed; connections younger than 10 s only once nine tenths are taken. The caller marks a
// connection authenticated through Prover.
//
// Only Close ends a listener; no error of Accept does. If the machine has no descriptor left, Accept waits for one.
//
// The time of the last read is recorded only while about half of a port or more is taken. Below that it costs nothing.
//
// All exported functions and methods may be called concurrently. The only goroutines are one for each of the few
// connections that are being refused.
package connlimit
