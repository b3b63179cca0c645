// Package model holds the judges of other packages. Only tests use it.
//
// Model is the slow twin of package limit: the same rules, written down a second time in the plainest way. It keeps
// what a key has spent, hit by hit where hits end one by one, and sums it up for every question, in exact fractions
// (math/big). It finds the instants of a Verdict by searching for them. It uses the types of limit but none of its
// code. Where the two differ, one of them is wrong; the Model is the one that can be checked against the rules by
// reading.
//
// History is the slow twin of a whole shard: it receives every request with its answer, in the order of the log, and
// computes the answer itself. It has a Model for each limit of each key, and lists for the rest: the open holds of a
// key, and the deeds that moved its ladder, which is replayed for every question. Every question goes to a copy on
// which the holds that are due have ended; the copy replaces the original when something is counted. History uses the
// types of limit and policy but none of their code, and does not import package shard, which it judges.
//
// Linearizable needs no log: it checks whether the observations of one key's clients can come from one counter that
// decides one operation at a time.
//
// A Model or a History must be used by one goroutine at a time.
//
// An id such as G3 names a rule of docs/guarantees.md.
package model
