// Package verify is the engine of `stint verify`: clients that contend for limits while things fail, and a judge of what
// they were told.
//
// It asks several nodes over Connect's JSON and knows nothing of stint but that. Every answer is checked when it comes,
// and the counters are read and compared when the load is over. What counts as exact is listed at type Result.
//
// Run may be called concurrently; it has ended its goroutines when it returns.
package verify
