// Package verify is the engine of `stint tool verify`: clients contend for limits while faults happen, and a judge checks the
// answers that they got.
//
// It calls several nodes over Connect's JSON and knows nothing else of stint. Every answer is checked when it arrives, and
// the counters are read and compared when the load is over. Type Result lists what counts as exact.
//
// Run may be called concurrently; its goroutines have ended when it returns.
//
// An id such as S9 names a rule of docs/guarantees.md.
package verify
