// Package bubble lets tests run whole nodes in virtual time, in a testing/synctest bubble: waiting costs nothing there,
// and no machine is too slow for it. Run opens the bubble, and a Town replaces gossip, which needs real sockets. Disks
// and networks in memory are those of internal/testing/memfs and internal/testing/memnet.
//
// Bubbles share nothing: what a test makes in one belongs to it alone. The goroutines of the bubble may use a Town
// concurrently. Ids such as R9 name rules of docs/rules.md.
package bubble
