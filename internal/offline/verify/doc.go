// Package verify is the engine of `stint tool verify`: clients contend for limits while faults happen, and a judge
// checks their answers.
//
// It calls several nodes over Connect's JSON and knows nothing of how they count. It checks every answer when it
// arrives, and reads and compares the counters when the load is over. Type Result defines exact.
//
// Run may be called concurrently; its goroutines have ended when it returns.
//
// An id such as S9 names a rule of docs/guarantees.md.
package verify
