// Package crew runs functions on goroutines that stay for the next function, as a new goroutine for each would.
//
// The difference is their stack. A new goroutine has 2 KiB of it, and what decides a request needs 8: its stack was copied
// twice, while frames were deep. Where nearly every request has a goroutine of its own that took 3.5 % of a node's processor
// time (docs/benchmarks.md, "Stacks").
package crew
