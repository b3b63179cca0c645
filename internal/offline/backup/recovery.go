package backup

// Recovery says how a backup was made from what was left of a cluster.
type Recovery struct {
	Actor  string          // who recovered
	Inputs []string        // what was read: nodes, and backups
	Shards []RecoveredFrom // data shards in order, then the system shard
}

// RecoveredFrom says what a shard's section is.
type RecoveredFrom struct {
	From  string // the replica, or other source; "": nothing was left
	Exact bool   // it has everything that the shard ever answered
	Lost  string `json:",omitempty"` // why it is not exact
}
