// Package sim shows that the tests see, and plays whole clusters in virtual time. It holds tests only.
//
// TestClusters builds worlds out of seeds. In each, three to five real nodes run inside a testing/synctest bubble: real
// Raft groups, actors, routers, planners, on a network in memory (raftfsm/memnet), on disks in memory that forget what
// was not fsynced (raftfsm/memfs), on clocks that step, stop and lie, and with a gossip that is late or deaf. The seed
// says what is done to them and when: crashes, cuts, losses, slow, hung, failing and wiped disks, pauses, joins, drains,
// removals, policies. Clients ask all the while, and what they were told is judged (judge_test.go): every effect has one
// place, units are given once, who was denied did not fit, ids get one answer, time rises, replicas at one place are
// equal, what was taken ends once, holds expire to the microsecond, and keys are linearizable. When the faults end, every shard must answer within 10 s, the table must come to
// rest, and the replicas together. The schedule comes out of the seed; the order of goroutines does not.
//
// A simulation that passes proves nothing if it would pass without the guards as well. So each guard is taken away
// once, in a mutated copy of the source, and a test must fail on it: the guards of the shard and its actor in the
// simulation of one shard (TestMutants, TestSessionMutants), its rules of holds, ladders and changes of policy where the
// slow twin judges (TestHoldMutants), those of nodes and clusters in whatever sees them cheapest
// (TestClusterMutants).
//
// The simulation of one shard lives beside what it simulates (package actor, simulation_test.go), because it drives the
// actor's sequencer directly. Its worlds are made out of a seed each, use no goroutine and no clock, and can be played
// again. What they decide is judged by package internal/check. Sessions have worlds of their own, in package shard
// (TestCopiesAreCountedOnce).
//
//	go test ./internal/sim -run TestClusters -v                   worlds, and what they have met
//	go test ./internal/sim -run TestClusters -sim.seed=17 -v      the world of seed 17 alone
//	go test ./internal/sim -run TestClusters -sim.worlds=500 -timeout 30m
//	go test ./internal/sim -run TestClusters -tags nightly -timeout 12h
//	go test ./actor -run TestSimulation -v          worlds, operations a second, and what the worlds have met
//	go test ./actor -run TestSimulation -seed 17    the world of seed 17 alone
//	go test ./actor -run TestSimulation -tags nightly -timeout 60m
//	go test ./internal/sim -run Mutants -v          what each mutant is caught by
package sim
