// Package node assembles one process and takes it apart again. It decides nothing about limits: it knows what needs
// what, and in which order things start and stop.
//
// # Start
//
//	policies   a file that cannot be read must stop us before anything is touched
//	stores     the data directory, locked and checked: everything below writes to it
//	groups     one replica for each shard; each replays its log and elects itself
//	actors     one for each shard; each opens an epoch as soon as its group leads
//	router     from a key to its actor
//	server     last: nobody is let in before every shard can decide
//
// # Stop
//
// The other way round. The server first stops being ready and lets the requests under way finish; then the actors
// finish what still queues, as their groups must be there for that; then the groups, then the stores.
//
// A disk that cannot be trusted any more ends the process without any of this (Done yields an error that is ErrDisk):
// whatever was answered is on disk, and a stop in order would wait for the disk.
//
// Start and Close are called once each, by one goroutine. The other methods may be called by any number.
package node
