package sim

import "testing"

// restoreGuards keep a restore from admitting what the lost history has admitted, and half a restore from starting.
var restoreGuards = []judged{
	{mutant{"an unknown key is at rest after a restore", "shard/restore_mark.go", "\treturn m.full.State(l.Limit, now)\n",
		"\treturn limit.State{}\n"}, tests("shard", "TestARestoredShardAdmitsNothingTwice")},
	{mutant{"another tier is not full", "shard/restore_mark.go", "\treturn m.full.Atop(l.Limit, s, now)\n", "\treturn s\n"},
		tests("shard", "TestAHigherTierIsFullToo")},
	{mutant{"a backup's window goes on where it was", "shard/restore_state.go",
		"l.state, l.since = c.mark.full.With(l.limit, found), c.At", "l.state, l.since = found, c.At"},
		tests("shard", "TestARestoredShardAdmitsNothingTwice")},
	{mutant{"what was taken before a restore is given back", "shard/restore_state.go", "\t\tl.since = c.At\n", ""},
		tests("shard", "TestWhatNeverResetsContinuesWithTheBackup")},
	{mutant{"holds that nobody knows are none", "shard/restore_state.go",
		"\t\t\tl.state = c.mark.full.With(l.limit, l.state)\n", "\t\t\tl.state = limit.SetUsed(l.limit, limit.State{}, l.state.A, c.At)\n"},
		tests("shard", "TestHoldsThatNobodyKnowsCountForAsLongAsAHoldMayLast")},
	{mutant{"a handle of the lost history settles", "shard/hold_settle.go", "err := e.lost(t)", "var err *Error"},
		tests("shard", "TestARestoredShardAdmitsNothingTwice")},
	{mutant{"a lost decision on several shards is refunded", "shard/op_settle.go", "case u == nil && e.lost(&s.Target) != nil:", "case false:"},
		tests("shard", "TestADecisionOnSeveralShardsThatWasLostIsNotRefunded")},
	{mutant{"an id of the lost history runs again", "shard/eval_batch.go", "return b.restoredSince(r, made)", "return nil"},
		tests("shard", "TestIDsAfterARestore")},
	{mutant{"a cleared key is full again", "shard/counter_forget.go", " && !l.cleared &&", " &&"},
		tests("shard", "TestAPersonClearsAKeyThatIsFull")},
	{mutant{"a mark that cannot be read is none", "shard/restore_mark.go", "if b.markErr != nil {", "if false {"},
		tests("shard", "TestAMarkThatCannotBeReadRefuses")},
	{mutant{"a backup is read without its sum", "internal/backup/read.go", "if !bytes.Equal(sum.Sum(nil), want) {", "if false {"},
		tests("internal/backup", "TestEveryFlippedByteIsDetected")},
	{mutant{"half a restore starts", "raftfsm/disk_restore.go", "there && filling == nil", "there && false"},
		tests("raftfsm", "TestHalfARestoreDoesNotStart")},
	{mutant{"an interrupted restore looks like an empty directory", "raftfsm/disk_stores.go", "file || log || restoring ||", "file || log || restoring && false ||"},
		tests("raftfsm", "TestHalfARestoreDoesNotStart")},
	{mutant{"a restored log begins where the backup's ended", "internal/node/restore.go",
		"state.Epoch() + state.Seq() + epochsAhead", "state.Epoch() + state.Seq() + 0*epochsAhead + 1"},
		tests("internal/node", "TestThreeNodesAreRestoredToOneWhichGrowsAgain")},
	{mutant{"a backup of another number of shards is restored", "internal/node/restore.go", "if before.Shards != r.Backup.Shards || ", "if "},
		tests("internal/node", "TestABackupOfAnotherNumberOfShardsIsRefused")},
}

// TestRestoreMutants removes each of them.
func TestRestoreMutants(t *testing.T) { judgeMutants(t, restoreGuards) }
