// Package restore makes a new cluster of one node from a backup, offline: Plan decodes the backup and says what the
// cluster will be, Restore.Write writes its data directory.
//
// It is not known what was used after the backup was begun. So each limit counts as full until nothing of that time
// counts any longer (shard.Continue), unless the backup is exact or a person keeps the limit's counts. Epochs and shard
// time go on past all that the lost cluster may have reached, a new secret seals ids, tokens lose what may have been
// revoked since, and sinks of Stripe are disabled. The cluster may have another number of shards than the backup.
package restore
