package sim

import "testing"

// errandMutants are guards of what errands do in worlds with snapshots and a disk that forgets everything: whole clusters
// must fail without them. Some show too seldom in a few worlds; for them a smaller test is named, which detects them every
// time.
var errandMutants = []judged{
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
		"\tfor n := range s.table.segments.length {\n\t\tfor i := range s.table.segments.at(n).slots {\n" +
			"\t\t\tif key, _ := s.table.segments.at(n).record(i); len(key) > 0 && key[0] == sessionRecord {\n" +
			"\t\t\t\ts.table.drop(s.table.own(n), i, xxhash.Sum64(key))\n\t\t\t\tbreak\n\t\t\t}\n\t\t}\n\t}\n" +
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
