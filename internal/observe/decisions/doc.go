// Package decisions tells what a node has decided, and what has happened to the keys that it owns, to those who want to know: readers of a stream, and the decision log.
//
//	Event    one decision, as the node that was asked has answered it; or what happened to a key, as its owner has committed it
//	Bus      passes the events of a node on. Without a reader and a log, a decision costs one atomic load
//	Reader   the events that match a Filter, in a ring of 1,024: a slow reader loses the oldest and is told how many
//	Log      lines of JSON in a file, rotated by size, or on another writer. It samples: Event.Weight says how many decisions
//	         a line stands for
//
// A decision is never delayed by one who hears of it: a full ring drops events, and files are written by a goroutine of the Log.
// Nothing here changes an answer.
//
// An Event has the key as it was counted: a hash in a namespace that hashes its keys. Whoever shows events to others hides the keys
// that they may not see. Nodes send each other Events and Filters as JSON, and ignore fields that they do not know.
//
// All methods may be called concurrently, except that one goroutine at a time calls Reader.Take.
package decisions
