// Package decisions is where a node says what happened: once for each call, when it ends, and once for what has
// happened to a key.
//
//	Event     a call at its end, on any port, with all that was asked and decided in it. The port makes it and passes
//	          it to Listeners: the tracer, the metrics, the log of calls and the Bus
//	Bus       the Listener that makes a Record of each decision for those who want it, and of what its owner has
//	          committed about a key. Without a reader and a log, an Event costs it one atomic load
//	Reader    the Records that match a Filter, in a ring of 1,024: a slow reader loses the oldest and is told how many
//	Log       lines of JSON in a file, rotated by size, or on another writer. It samples: Record.Weight says how many
//	          decisions a line stands for
//
// An answer is never delayed by one who hears of it: a full ring drops records, and files are written by a goroutine of
// the Log. Nothing here changes an answer.
//
// A Record has the key as it was counted: a hash in a namespace that hashes its keys. Whoever shows records to others
// hides the keys that they may not see. Nodes send each other Records and Filters as JSON, and ignore fields that they
// do not know.
//
// All methods may be called concurrently, except that an Event belongs to its call, and that one goroutine at a time
// calls Reader.Take.
package decisions
