package sim

import "testing"

// judgeGuards keep a bad bit from costing more than the replica in whose memory it flipped.
var judgeGuards = []judged{
	{mutant{"a sum of 0.1.0 halts who reads it", "shard/state.go", "\ts.install(&e)\n\treturn",
		"\tif e.kind == oldSum {\n\t\treturn Outcome{}, fmt.Errorf(\"shard: forked before entry %d\", index)\n\t}\n\ts.install(&e)\n\treturn"},
		tests("raftfsm", "TestASumThatNobodyMatchesHaltsNobody")},
	{mutant{"a sum holds what may have been swept", "shard/store_sum.go", "if e.near[i].minute > running {", "if e.near[i].minute >= running {"},
		tests("shard", "TestSumsDoNotDependOnWhatWasSwept")},
	{mutant{"sums are logged while a voter is of 0.1.0", "actor/sequencer.go", "if at.Level < shard.LevelSound {", "if false {"},
		tests("actor", "TestNoSumIsLoggedWhileAVoterMayBeOfTheFirstLevel")},
	{mutant{"a snapshot does not look at its records", "shard/store_snapshot.go",
		"(records != p.head[6] || sum != p.head[8])", "records > maxRecords"},
		tests("shard", "TestAFlippedBitIsInNoPicture")},
	{mutant{"the head of keys is another's while records have it", "shard/store_head.go",
		"t.heads.records[number]--; t.heads.records[number] == 0 {", "t.heads.records[number]--; t.heads.records[number] < 5 {"},
		tests("shard", "TestHeadsAreUsedAgain")},
	{mutant{"the head of keys changes in a snapshot that is being written", "shard/store_directory.go",
		"if d.heads.generation != d.generation {", "if false {"},
		tests("shard", "TestHeadsAreUsedAgain")},
	{mutant{"any other sum convicts, a majority or not", "cluster/placement/judge.go", "if count <= len(voters)/2 {", "if count < 1 {"},
		tests("cluster/placement", "TestEachReplicaJudgesItselfByTheMajority")},
	{mutant{"sums of two versions are compared", "cluster/placement/judge.go", "s.Version == other.Version && ", ""},
		tests("cluster/placement", "TestEachReplicaJudgesItselfByTheMajority")},
	{mutant{"a sum that may still come is not awaited", "cluster/placement/judge.go", "awaited = true", "awaited = false"},
		tests("cluster/placement", "TestEachReplicaJudgesItselfByTheMajority")},
	{mutant{"a shard that has stopped decides", "actor/loop.go", "case stopped != nil:", "case stopped != nil && !leads:"},
		tests("actor", "TestAStoppedShardDecidesNothingAndLogsItsSums")},
	{mutant{"a conviction ends with the process", "raftfsm/group_create.go", "case g.Convicted != nil:", "case false:"},
		tests("raftfsm", "TestAConvictedReplicaDoesNotComeBack")},
	{mutant{"what a convicted replica had is deleted", "cluster/placement/reconcile.go", "case gone && h.Kept:", "case false:"},
		tests("cluster/placement", "TestANodeDoesWhatTheTableSays")},
	{mutant{"convicted replicas fill the disk", "internal/node/replicas.go", "if lowDisk || ", "if "}, tests("internal/node", "TestEvidenceIsBounded")},
	{mutant{"a lost replica does not count for the majority", "internal/node/reconciler_judge.go", "voters = append(voters, name)",
		"if voter.Lost {\n\t\t\tcontinue\n\t\t}\n\t\tvoters = append(voters, name)"}, tests("internal/node", "TestLostReplicasCountForTheMajority")},
	{mutant{"stale reads come from a replica that has stopped", "internal/node/stale_reader.go", " || replica.stopped.Load() != nil", ""},
		tests("internal/node", "TestTheOnlyReplicaStopsWhenItsRecordsAreWrong")},
	{mutant{"a convicted replica goes although its vote is needed", "internal/node/reconciler_judge.go", "case sound <= voters/2:", "case voters < 0:"},
		tests("internal/node", "TestAConvictedReplicaStaysWhileItsVoteIsNeeded")},
	{mutant{"nobody judges", "internal/node/reconciler_judge.go", "case placement.Convicted:", "case placement.Convicted + 100:"},
		tests("internal/node", "TestABitThatFlipsCostsOneReplica")},
	{mutant{"without a majority the shard goes on", "internal/node/reconciler_judge.go", "case placement.Disputed:", "case placement.Disputed + 100:"},
		tests("internal/node", "TestAShardWithoutAMajorityOfEqualSumsStops")},
}

// TestJudgeMutants removes each of them.
func TestJudgeMutants(t *testing.T) { judgeMutants(t, judgeGuards) }
