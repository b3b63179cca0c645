// Package recovery makes a backup from the disks that are left of a cluster that has lost its majority. All nodes must
// be stopped; nothing in their directories is changed.
//
// Open reads what is left of each node, a data directory or a part that was made of one on another machine, and chooses
// a replica of each shard (Shard). A shard is exact if what is left has everything that it ever answered.
// Recovery.Write writes the backup; package restore makes a cluster of it, and fills what is not exact.
package recovery
