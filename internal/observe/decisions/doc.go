// Package decisions reports what happened on a node: one event for each call, when it ends, and one for each change of
// a key.
//
//	Event     a call at its end, on any port, with all its requests and decisions. The port makes it and passes
//	          it to Listeners: the tracer, the metrics, the log of calls and the Bus
//	Bus       the Listener that makes a Record of each decision for its readers, and of the changes that its owner has
//	          committed about a key. Without a reader and a log, an Event costs it one atomic load
//	Reader    the Records that match a Filter, in a ring of 1,024: a slow reader loses the oldest and gets their number
//	Log       lines of JSON in a file, rotated by size, or on another writer. It samples: Record.Weight says how many
//	          decisions a line stands for
//
// Listeners never delay an answer: a full ring drops records, and a goroutine of the Log writes files. Nothing here
// changes an answer.
//
// A Record has the key as it was counted: a hash in a namespace that hashes its keys. Callers that show records to
// clients must hide the keys that these may not see. Nodes send each other Records and Filters as JSON, and ignore
// unknown fields.
//
// All methods may be called concurrently, except that an Event belongs to its call, and that one goroutine at a time
// calls Reader.Take.
package decisions
