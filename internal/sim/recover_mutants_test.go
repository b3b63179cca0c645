package sim

import "testing"

// recoverGuards keep a recovery from calling exact what is not, from using what others contradict, and from making a second
// cluster beside the first.
var recoverGuards = []judged{
	{mutant{"a minority of the newest configuration is exact", "internal/node/recover_choose.go",
		`{"the newest configuration", chosen.Newest}, `, ""}, tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"a minority of the configuration before is exact", "internal/node/recover_choose.go",
		`{"the configuration before", chosen.Previous}, `, ""}, tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"a minority of the table is exact", "internal/node/recover_choose.go", `, {"the table", listed}`, ""},
		tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"half is a majority", "internal/node/recover_choose.go", "2*len(absent) >= n", "2*len(absent) > n"},
		tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"a replica that forgot something counts", "internal/node/recover_choose.go",
		`{ return isUsable(r) && r.Forgetful == "" }`, `{ return isUsable(r) }`}, tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"a convicted replica is chosen", "internal/node/recover_choose.go", ` && r.Convicted == "" }`, " }"},
		tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"a replica that the table has lost counts", "internal/node/recover_choose.go", "listed != nil && listed.Lost &&",
		"listed != nil && false &&"}, tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"an outvoted sum counts", "internal/node/recover_choose.go", "case verdict == placement.Convicted:", "case false:"},
		tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"the shorter log is chosen", "internal/node/recover_choose.go", "cmp.Compare(r.Index, newest.Index)) > 0",
		"cmp.Compare(r.Index, newest.Index)) < 0"}, tests("internal/node", "TestTheChoiceOfAReplica")},
	{mutant{"what is not exact is not filled", "internal/node/restore.go", "Exact: r.dataExact() && id", "Exact: r.Backup.Recovery != nil && id"},
		tests("internal/node", "TestRecoverFromDisks")},
	{mutant{"what is exact is filled", "internal/node/restore.go", "Exact: r.dataExact() && id", "Exact: false && id"},
		tests("internal/node", "TestRecoverFromDisks")},
	{mutant{"one lost shard of several is not filled", "internal/backup/write.go", "func(s RecoveredFrom) bool { return !s.Exact })",
		"func(s RecoveredFrom) bool { return false })"}, tests("internal/node", "TestSuspectedReplicasAreNotRecovered")},
	{mutant{"nobody has to accept a loss", "internal/node/recover.go", "!r.Exact && !r.config.AcceptLoss", "false"},
		tests("internal/node", "TestRecoverFromDisks")},
	{mutant{"a cluster without policies", "internal/node/recover.go", `system.Chosen == "" && r.backup == nil {
		return errors`, `system.Chosen == "" && false {
		return errors`}, tests("internal/node", "TestSuspectedReplicasAreNotRecovered")},
	{mutant{"recovered while a node answers", "internal/node/recover.go", "if len(heard) > 0 {", "if false {"},
		tests("internal/node", "TestRecoverRefusesWhatDoesNotBelongTogether")},
	{mutant{"a node counts twice", "internal/node/recover.go", "from[about.Node]; twice {", "from[about.Node]; twice && false {"},
		tests("internal/node", "TestRecoverRefusesWhatDoesNotBelongTogether")},
	{mutant{"two clusters are mixed", "internal/node/recover.go", "if about.Cluster != first.about.Cluster {", "if false {"},
		tests("internal/node", "TestRecoverRefusesWhatDoesNotBelongTogether")},
	{mutant{"a part of a node that ran again", "internal/node/recover.go", "if last := other.about.Replicas[i].Time; last >", "if last := other.about.Replicas[i].Time; false && last >"},
		tests("internal/node", "TestRecoverFromDisks")},
	{mutant{"tokens of an older system shard are whole", "internal/node/restore.go", "if b.SystemExact() {", "if b.Recovery != nil {"},
		tests("internal/node", "TestTokensAfterARecovery")},
	{mutant{"older policies are recovered", "internal/node/restore.go", "if version > max(document.Version, revision) {", "if false {"},
		tests("internal/node", "TestTheNewestPoliciesAreRecovered")},
	{mutant{"shards do not hear of policies after a recovery", "shard/restore_state.go", "max(before.Version, c.Revision)+1", "before.Version+1"},
		tests("internal/node", "TestTheNewestPoliciesAreRecovered")},
	{mutant{"a lost shard begins in the epochs that it had", "internal/node/recover.go", "longest = max(longest, s.Replicas[i].Index)", "longest = max(longest, min(1, s.Replicas[i].Index))"},
		tests("internal/node", "TestAShardOfWhichNothingIsLeftGoesAhead")},
	{mutant{"a torn log is whole", "raftfsm/disk_remains.go", "\ts.Forgetful = r.torn\n", ""}, tests("raftfsm", "TestRemainsAreReadAndNotChanged")},
	{mutant{"a conviction is not read", "raftfsm/disk_remains.go", "if record.Convicted != nil {", "if false {"}, tests("raftfsm", "TestRemainsSayWhatSpeaksAgainstAReplica")},
	{mutant{"the disk of a running node is read", "raftfsm/disk_remains.go", "\tlock, err := files.Lock(path)\n", "\tlock, err := io.Closer(nil), error(nil)\n"},
		tests("raftfsm", "TestRemainsAreReadAndNotChanged")},
	{mutant{"an exact restore fills", "shard/restore_state.go", "\tif !r.Exact {\n\t\tc.put", "\tif true {\n\t\tc.put"},
		tests("shard", "TestAnExactRestoreLosesNothing")},
	{mutant{"an exact restore forgets what an earlier one did not know", "shard/restore_state.go", "\t\tif !c.Exact {\n\t\t\treturn // there", "\t\tif true {\n\t\t\treturn // there"},
		tests("shard", "TestAnExactRestoreLosesNothing")},
}

// TestRecoverMutants removes each of them.
func TestRecoverMutants(t *testing.T) { judgeMutants(t, recoverGuards) }
