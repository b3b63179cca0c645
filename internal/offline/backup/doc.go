// Package backup writes and reads backup files: one picture of each shard of a cluster, and what a reader needs to know
// before it reads any of them.
//
// # The file
//
//	"stint backup 1\n"
//	length (4 bytes) and text of the Header, as JSON
//	for each shard, the data shards in order and then the system shard:
//	    'S', shard (4 bytes)
//	    frames: length (4 bytes), bytes; a length of 0 ends them. Together they are one zstd stream of the shard's
//	    Snapshot, with its content checksum
//	the SHA-256 of everything before it (32 bytes)
//
// Numbers are little-endian. The system shard is last, so that its policies are not older than those that a data shard
// has adopted. Shards are pictured one after the other, so the pictures of an operation on several shards may differ; a
// restore treats everything after the first picture as unknown.
//
// A recovery (stint tool recover) writes the same file from the disks of stopped nodes. Its header then has a Recovery,
// which says of each shard whether it is exact. A part holds the remains of one node, for a recovery on another
// machine: it begins with "stint part 1\n" and a PartHeader, and may have several sections of a shard, or none.
//
// A reader uses nothing before it has verified the SHA-256, which guards against damage, not against a forger.
//
// A file holds everything that the cluster knows: keys of customers, hashes of tokens, the secret that seals ids.
package backup
