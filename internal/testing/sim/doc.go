// Package sim plays whole clusters in virtual time. It contains only tests.
//
// TestClusters builds worlds from seeds. In each, three to five real nodes run inside a testing/synctest bubble: real
// Raft groups, actors, routers and planners. Their network is in memory (internal/testing/memnet), and so are their
// disks, which forget what was not fsynced (internal/testing/memfs). Their clocks step, stop and lie, and their gossip
// is late or deaf. The seed determines the faults and their times: crashes, cuts, losses, slow, hung, failing and wiped
// disks, pauses, joins, drains, removals, policies, second processes under the id of a node. Snapshots come after a few
// dozen entries, so that restarts and new replicas use them. Clients send requests throughout, and their answers are
// judged (judge_test.go): every effect has one place, units are given out once, a denied request did not fit, ids get
// one answer, time rises, replicas at one place are equal, what was taken ends once, holds expire to the microsecond,
// bills are the admitted units less those given back, keys are linearizable, and what nodes spend from leases stays
// within the limits (spend_test.go). When the faults end, every shard must answer within 10 s, the table must come to
// rest, and the replicas must reach the same place. The schedule comes from the seed; the order of goroutines does not.
//
// One world in three also changes the number of its shards, up and down, in the middle of all that (shards_test.go).
// The answers are judged as in any other world, by key: a key is on one shard after the other, its time rises from each
// to the next, and lists of bills and the forgetting of a key must have met every slot. In the end all slots must be
// where the last number of shards wants them, and none under way. Where a slot is at rest, its shard is the one that
// answers.
//
// A passing simulation proves nothing if it would also pass without the guards. So package internal/testing/mutants
// takes each guard out once, and some of them show in whole clusters only.
//
// The simulation of one shard lives beside its subject (package actor, simulation_test.go), because it drives the
// actor's sequencer directly. Each of its worlds comes from a seed, uses no goroutine and no clock, and can be
// replayed. Package internal/testing/model judges its decisions. Sessions have their own worlds, in package shard
// (TestCopiesAreCountedOnce).
//
//	go test ./internal/testing/sim -run TestClusters -v                   worlds, and the events that they covered
//	go test ./internal/testing/sim -run TestClusters -sim.seed=17 -v      only the world of seed 17
//	make sim WORLDS=500 FROM=1                                   ranges of seeds, with progress
//	go test ./actor -run TestSimulation -v          worlds, operations per second, and the events that the worlds covered
//	go test ./actor -run TestSimulation -seed 17    only the world of seed 17
//	make twins                                      more of these worlds, and other random tests with many inputs
//
// Ids such as R1 and G11 name rules of docs/rules.md.
package sim
