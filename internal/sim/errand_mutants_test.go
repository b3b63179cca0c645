package sim

import "testing"

// errandMutants are guards of what errands do in worlds with snapshots and a disk that forgets everything: whole clusters
// must fail without them. Some show too seldom in a few worlds; for them a smaller test is named, which detects them every
// time.
var errandMutants = []judged{
	{mutant{"a look leaves a record", "shard/eval.go", "\t\tif ch.looks {\n\t\t\tn +=", "\t\tif ch.looks && false {\n\t\t\tn +="},
		tests("shard", "TestEveryDecisionIsTheTwins")},
	{mutant{"a look takes", "shard/eval.go", "\t\top, cost = Peek, 1  ", "\t\tcost = 1  "}, tests("shard", "TestALookBesideATake")},
	{mutant{"a denied look is counted", "shard/eval_denied.go", "if !ch.policy.CountDenied || ch.looks {", "if !ch.policy.CountDenied {"},
		tests("shard", "TestEveryDecisionIsTheTwins")},
	{mutant{"a look's part of a settlement must have a hold", "shard/hold_settle.go", "if !found && r.Entries[i].Cost == 0 {", "if false {"},
		tests("cluster/routing", "TestAnOperationIsAllOrNothing")},
	{mutant{"a leg holds something for a look", "shard/eval_ops.go", "\t\tif ch.looks {\n", "\t\tif ch.looks && false {\n"},
		tests("cluster/routing", "TestAnOperationIsAllOrNothing")},
	{mutant{"a look that an older node could not decide", "shard/eval.go", "if e.at.Level < LevelTrust { // a node", "if false { // a node"},
		tests("shard", "TestALookBesideATake")},
	{mutant{"what an aborted operation holds is never given back", "shard/op_leg.go",
		"\t\terr = e.endPart(l.entries, true)\n\t\tl.state = legReleased",
		"\t\tl.state = legReleased"}, fewClusters("1", "4")},
	{mutant{"home decides twice, in operations", "shard/op_home.go",
		"} else if u != nil {\n\t\tif u.fingerprint", "} else if u != nil && false {\n\t\tif u.fingerprint"},
		tests("cluster/routing", "TestAnOperationIsAllOrNothing")},
	{mutant{"a leg keeps what was settled", "shard/op_leg.go",
		"\tcase OperationSettled:\n", "\tcase OperationSettled:\n\t\tif l.state == legHeld {\n\t\t\tl.state = legCommitted\n\t\t\tbreak\n\t\t}\n"},
		fewClusters("1", "4")},
	{mutant{"what was spent above is not committed with the settlement", "shard/op_settle.go",
		"\tif e.r.Operation.Excess != nil {\n\t\te.ruleExcess(OperationCommitted, print)\n\t}\n", ""},
		tests("shard", "TestHomeSettlesTogetherWithTheExcess")},
	{mutant{"a settlement is made with what was given up", "shard/op_excess.go",
		"\tcase u != nil, e.at.Now > x.until():", "\tcase u != nil && false, e.at.Now > x.until():"}, tests("shard", "TestAnExcessThatWasGivenUpIsNotSettledWith")},
	{mutant{"a leg settles what was charged above once more", "shard/op_settle.go", "\ts.leaveExcess(l.entries)\n", ""},
		tests("shard", "TestALegSettlesWithoutTheExcess")},
	{mutant{"an excess gives back what others hold of a concurrency limit", "shard/op_excess.go",
		"s.Uncounted = limit", "_ = limit"}, tests("shard", "TestAnExcessGivesBackWhatCountedIt")},
	{mutant{"a leg has room for whatever was spent above", "shard/op_excess.go",
		" || r.Entries[i].Cost <= s.Remaining", " || true"}, tests("shard", "TestALegIsChargedAnExcessThatFits")},
	{mutant{"a tally adds again for its id", "shard/eval.go",
		"answer.Decision.Index != 0 && !e.brimful {", "answer.Decision.Index != 0 && !e.brimful && r.Op != Tally {"}, fewClusters("1", "6")},
	{mutant{"a denial that is repeated admits", "cluster/routing/denials.go", "if said.Allowed || said.Replayed || said.Index != 0 || said.RetryAfter == 0 ||",
		"if said.Replayed ||"}, tests("cluster/routing", "TestWhatIsNotWorthRepeatingIsNotKept")},
	{mutant{"a revision does not begin anew", "shard/counter_change.go", "c.policy.OnChange == policy.Restart || new.Algorithm", "new.Algorithm"},
		tests("shard", "TestEveryDecisionIsTheTwins")},
	{mutant{"the sessions are not in a snapshot", "shard/store_snapshot.go", "\treturn s, nil\n}\n\nfunc readHead",
		"\tvar gone []string\n\tfor key := range s.table.all() {\n\t\tif len(key) > 0 && key[0] == sessionRecord {\n" +
			"\t\t\tgone = append(gone, string(key))\n\t\t}\n\t}\n\tfor _, key := range gone {\n\t\ts.table.forget(key)\n\t}\n" +
			"\treturn s, nil\n}\n\nfunc readHead"}, fewClusters("1", "6")},
	{mutant{"the state of a snapshot is not fsynced, in clusters", "raftfsm/disk_snapshots.go",
		"k.buffer.Flush(), k.file.Sync(), k", "k.buffer.Flush(), k"}, fewClusters("1", "8")},
	{mutant{"votes and identities are not fsynced", "raftfsm/memfs/stable.go",
		"errors.Join(err, file.Sync(), file.Close())", "errors.Join(err, file.Close())"},
		tests("raftfsm", "TestWhatWasSaidSurvivesAPowerCut")},
	{mutant{"a node forgets its vote", "raftfsm/disk_stable.go", "\tb, err := s.file.get(s.prefix + keyVoteFor)\n\tif err != nil {",
		"\tb, err := s.file.get(s.prefix + keyVoteFor)\n\tif err == nil && s.voteTerm == 0 {\n\t\terr = errNotFound\n\t}\n\tif err != nil {"},
		tests("raftfsm", "TestVoteIsAtomic|TestRestartKeepsEverything")},
}

// TestErrandMutants removes each of them.
func TestErrandMutants(t *testing.T) { judgeMutants(t, errandMutants) }
