// Package sleep waits for nothing but time: between two tries, or between two looks at what others do. Every such wait
// ends with its context, so that a caller who has gone, or a process that stops, does not wait for it.
//
// It uses the clock of the machine, or of the bubble of a test (testing/synctest). What has a clock of its own, and
// what waits for anything besides, waits by itself. For may be called concurrently.
package sleep
