// Package placement decides where each shard lives, and which changes bring the cluster there.
//
// The package holds the table of nodes and replicas, the feature levels of the cluster, what nodes report about
// themselves (Report), and the decisions made from them: Plan for the cluster, Reconcile for a node's disk, Align for a
// group's Raft configuration, Judge for a replica's memory. All of these are pure functions; package node carries them
// out.
//
// # The table
//
// The source of truth is Table, a document of the system shard. It lists the nodes, the groups, the replicas of each
// group and their roles. It is replaced by compare-and-set only (shard.Swap), and an older version permits nothing that
// a newer one forbids:
//
//	replica    learner -> voter -> leaving -> not listed     and the flags Created and Lost
//	node       active <-> draining -> leaving -> removed     its id stays listed; a new disk is a new incarnation
//
// Roles only move forward. A replica's number is used once, across all groups: a vote is kept by name
// (node/shard/number), so a replica that lost its memory returns under another name or not at all. The founders'
// replicas of a group share one number: 1 in the groups of the first table, a new one in a group made later.
//
// # Levels
//
// Levels holds the feature level (shard.Level) of the cluster, the newest that is written. It is a document of its own,
// because a release drops the table fields that it does not know when it writes the next table. Each node reports the
// levels that its binary knows and the level that its data directory carries. PlanLevels, a pure function that the
// owner of the system shard calls, records these reports and decides when to rise. A rise has two steps, so that at no
// moment is anything written that a listed node could not read, whatever binary it starts with next:
//
//	Next      all listed nodes know the level, for ten minutes or because an operator asked for it, and answer:
//	          each writes it into its directory, which no older binary opens from then on
//	Cluster   all of them have said so, and the table is fenced (Table.Level)
//
// The fence is needed because the table and the levels are two documents. A plan made before Next, which would register
// a node of an older release, then fails its compare-and-set. From then on, Plan registers no node that does not know
// Table.Level, and gives it no replica. A node's view of the levels may be out of date, and is then lower.
//
// # Plan
//
// Plan computes the table that the controller wants. The node that owns the system shard calls it with the current
// table and its observations. Plan registers nodes that announce themselves, replaces lost replicas and replicas of
// nodes that are silent for longer than the grace period (--replace-after), empties leaving nodes, spreads replicas
// over zones first and nodes second, and names the node that should lead each group, so that the shards with slots are
// spread over the nodes. A group changes one replica at a
// time, a new replica joins before an old one leaves, and no change is made that a majority would not survive. A lost
// replica leaves before a new one joins: it never votes again, but counts for the majority. So no node has two voters
// in a group, and a group always goes on by itself if its other voters are well. Groups have an odd number of voters;
// with two nodes, one voter. Plan is a pure function, and while the nodes do not change, its tables converge.
//
// Plan also founds the groups of shards that the operator asks for (Table.Wanted), each once there are nodes for all of
// its voters, and lists moves of slots (Table.Moves) until those shards have equally many: at most two at a time,
// besides those that wait for holds to end, none while a replica joins or leaves, and as few as that takes. Where a
// slot is, the logs of the shards say (shard.Move); Table.Slots only follows. A shard that is no longer wanted keeps
// its group, without slots.
//
// # Reconcile and align
//
// Reconcile returns the actions that bring one node's disk in line with the table: create, open, close or destroy
// replicas, and record that they were made or are lost. Align returns the actions that bring a group's Raft
// configuration in line with the table. The leader of the group takes them: add a learner, promote one that caught up,
// remove one that leaves (never itself: it transfers the leadership first), and record that it happened. A leader uses
// a table that it read after it began to lead, so never an older one than its predecessor used. Both functions are pure
// and level-triggered: the next call finds what is still undone. A member that the table has never listed is left
// alone, because it may be newer than the table.
//
// # Judge
//
// Judge compares the sums of one replica with those that the voters of its group have reported (R12). The replica
// agrees with a majority, is convicted by one, or there is no verdict, because the voters that can report have no
// majority of equal sums. A replica judges only itself. A missing report is no disagreement, and a report that may
// still arrive is awaited.
//
// Ids such as X4 and R20 name rules of docs/rules.md.
package placement
