// Package check holds what other packages are judged by. It is used by tests only.
//
// Model is the slow twin of the package limit: the same rules, written down a second time in the plainest way. It keeps
// the history of a key, adds it up anew for every question, in fractions that are never rounded (math/big), and finds
// the instants of a Verdict by searching for them. It borrows the types of limit and none of its code. Where the two
// differ, one of them is wrong, and the Model is the one that can be read against the rules.
//
// History is the slow twin of a whole shard: it is told every request with the answer, in the order of the log, and
// answers itself. It has a Model for each limit of each key, and lists for the rest: the open holds of a key, and the
// deeds that moved its ladder, which is told anew for every question. Every question is put to a copy on which the
// holds that are due have ended, and that takes the place of the original when something is counted. It borrows the
// types of limit and policy and none of their code, and does not know package shard, which it judges.
//
// Linearizable needs no log: it says whether what the clients of one key saw can have come from one counter that
// decides one thing at a time.
//
// A Model or a History may be used by one goroutine at a time.
package check
