// Package table holds the records of one shard in memory, and writes and reads pictures of them.
//
// A Table has parts, and a Layout assigns records to parts. Each part is a hash table of segments that grows and
// shrinks by one segment at a time, so no change pays for rehashing everything (linear hashing: Litwin, "Linear
// hashing: a new tool for file and table addressing", VLDB 1980). A segment packs some 30 records into one byte slice:
// few enough to search and copy in a microsecond, and enough that the garbage collector sees few objects.
//
// It owns the records' bytes, their order (Place), their sums, and the sweep of those that have ended. It does not know
// the meaning of a record or of a part, or why a record is put.
//
// The records and their segments follow from the sequence of changes alone. So replicas that make the same changes
// sweep the same records with the same change.
//
// A Table has one writer: Put, Forget, Sweep and Picture must not overlap with anything. Reads may overlap with each
// other. Another goroutine may write a Picture out while the Table goes on.
package table
