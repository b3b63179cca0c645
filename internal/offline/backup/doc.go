// Package backup writes and reads backup files: one picture of each shard of a cluster, and what is needed to know before any
// of them is read.
//
// # The file
//
//	"stint backup 1\n"
//	length (4 bytes) and text of the Header, as JSON
//	for each shard, the data shards in order and then the system shard:
//	    'S', shard (4 bytes)
//	    frames: length (4 bytes), bytes; a length of 0 ends them. Together they are one zstd stream of the shard's Snapshot
//	    its length before compression (8 bytes) and its crc32c (4 bytes)
//	'E', number of shards (4 bytes)
//	the SHA-256 of everything before it (32 bytes)
//
// Numbers are little-endian. The system shard is last, so that its policies are not older than those that a data shard has
// adopted. Shards are pictured one after the other, so the pictures of an operation on several shards may differ; a restore
// treats as unknown what happened after the first of them.
//
// A recovery (stint tool recover) writes the same file from the disks of nodes that have stopped; its header then has a Recovery,
// which says of each shard whether it is exact. A part is what is left of one node, for a recovery on another machine: it begins
// with "stint part 1\n" and a PartHeader, and may have several sections of a shard, or none.
//
// A reader looks at nothing before the SHA-256 is verified. It guards against damage, not against a forger.
//
// A file holds everything that the cluster knows: keys of customers, hashes of tokens, the secret that seals ids.
package backup
