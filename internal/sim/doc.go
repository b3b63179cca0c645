// Package sim shows that the tests see. It holds tests only.
//
// A simulation that passes proves nothing if it would pass without the guards as well. So each guard of the shard and
// its actor is taken away once, in a mutated copy of the source, and the simulation must fail on it (TestMutants).
//
// The simulation of one shard lives beside what it simulates (package actor, simulation_test.go), because it drives the
// actor's sequencer directly. Its worlds are made out of a seed each, use no goroutine and no clock, and can be played
// again. What they decide is judged by package internal/check.
//
//	go test ./actor -run TestSimulation -v          worlds, operations a second, and what the worlds have met
//	go test ./actor -run TestSimulation -seed 17    the world of seed 17 alone
//	go test ./actor -run TestSimulation -tags nightly -timeout 60m
//	go test ./internal/sim -v                       what each mutant is caught by
package sim
