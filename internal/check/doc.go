// Package check holds what other packages are judged by. It is used by tests only.
//
// Model is the slow twin of the package limit: the same rules, written down a second time in the plainest way. It keeps
// the history of a key, adds it up anew for every question, in fractions that are never rounded (math/big), and finds
// the instants of a Verdict by searching for them. It borrows the types of limit and none of its code. Where the two
// differ, one of them is wrong, and the Model is the one that can be read against the rules.
//
// It never knows about keys, policies or shards: a test that checks those keeps one Model for each limit of each key.
// A Model may be used by one goroutine at a time.
package check
