package mutants

// Whole clusters: a few worlds are enough to detect units that are lost or invented wherever something fails. Most of
// these guards have a smaller test as well.
var ofSim = []group{
	{tests("internal/testing/sim", "TestTheShardsOfAProcessThatDiesAreServedAtOnce"), edits{
		"any-leader-is-dead": without(" && nodeOf(known.Leader) == dead"), // R10a
	}},
	{tests("internal/testing/sim", "TestNothingIsHandedOverToANodeThatHasDied"), edits{
		"handed-over-to-the-dead": gone, // R9
	}},
	{tests("node", "TestANodeThatRaftDoesNotHearIsNotCaughtUp"), edits{
		"handed-over-unheard": swap("r.group.Behind(name) == nil", "true"), // R9
	}},
	{tests("internal/testing/sim", "TestADeadNodeHasSpentItsLeases"), edits{"dead-node-spent-nothing": gone}},
	{lucky(tests("internal/testing/sim", "TestNobodyIsDeposedWhileAMajorityHearsIt", "-test.count=3")), edits{
		"evidence-of-different-times": always, // R10b
	}},
	{lucky(tests("internal/testing/sim", "TestClusters", "-sim.first=1", "-sim.worlds=6")), edits{
		"answers-before-fsync-in-clusters": instead("return d.Apply(batch, pebble.NoSync)"),
		"refunded-twice-in-clusters":       swap("found {", "found && t.Hold {"),
	}},
	{lucky(tests("internal/testing/sim", "TestClusters", "-sim.first=1", "-sim.worlds=4")), edits{
		"no-idempotency-record-in-clusters":    never,
		"lease-over-at-settlement-in-clusters": gone,
		"commit-keeps-lease-in-clusters":       instead("if back && l.counts(h) {"),
		"operation-credits-nothing":            gone,
	}},
	// A calm world: no request may fail in it. One time in six it has no request in the wrong instant.
	{lucky(tests("internal/testing/sim", "TestClusters", "-sim.seed=54", "-test.count=3")), edits{
		"stop-hands-nothing-over": always,
	}},
	{lucky(tests("internal/testing/sim", "TestClusters", "-sim.first=1", "-sim.worlds=8")), edits{
		"snapshot-not-fsynced-in-clusters": without("k.file.Sync(), "),
	}},
}
