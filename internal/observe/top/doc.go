// Package top finds the busiest keys: those with the most decisions, the most denials, the most admitted units. It
// counts in Space-Saving sketches: their memory does not grow with the number of keys, and their error is known: for
// each listed key count - err <= true <= count, and a key that is not listed has at most the floor of its list.
//
//	Sketch    one measure in one window of 10 s: at most 128 keys, so err and floor are at most N/128
//	Summary   a Sketch that has ended: its first 32 keys, so its floor is at most N/32
//	Table     three sketches for one policy of one namespace on one shard, and its ended windows: 6 x 10 s, 10 x 1 min,
//	          6 x 10 min
//	Board     the tables of one shard, made when a policy is used; a Budget bounds those of a node to 32 MiB. Policies
//	          that no longer fit share one table
//	List      the sums of one policy over its windows
//	Counts    what a node knows: the Lists of its shards, and those of the denials that it has repeated without asking the
//	          owners, which have a Board of their own
//	Answer    the Counts of all nodes, joined
//	Spike     a key that was denied far more often in the last minute than in those before
//
// Windows tumble: they begin at whole multiples of their length. The figures are about proposed decisions: one with a
// failed entry is counted as well.
//
// The package reads no clock and does no I/O, and nothing here influences a decision. A Board has one owner: the actor
// of its shard, or for repeated denials the holder of a lock. The result of Board.Read is immutable and may be shared.
// A Budget may be shared.
package top
