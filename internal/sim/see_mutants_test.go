package sim

import "testing"

// seeMutants are the guards of what operators see of keys: denials that nodes repeat, thresholds that have fired, and what is told once.
var seeMutants = []judged{
	{mutant{"a repeated denial is told to nobody", "cluster/routing/denials_pass.go", "\t\tp.repeated(r, &p.results[i].Decision)\n", ""},
		tests("cluster/routing", "TestEachRepetitionIsTold")},
	{mutant{"a denial that is repeated on the quick way is told to nobody", "cluster/routing/denials_pass.go", "\td.repeated(r, into)\n", ""},
		tests("cluster/routing", "TestEachRepetitionIsTold")},
	{mutant{"owners have nothing of keys that they do not list", "internal/top/repeated.go", "Estimate{floor, floor}", "Estimate{0 * floor, 0 * floor}"}, brackets},
	{mutant{"a list that is cut knows nothing of what it leaves out", "internal/top/answer.go", "max(p.Floors[m], last.Estimates[m].Count)",
		"max(p.Floors[m], 0*last.Estimates[m].Count)"}, brackets},
	{mutant{"a shared list has nothing of other policies", "internal/top/repeated.go", "\tall = append(all, bare(\"\"))\n", ""}, brackets},
	{mutant{"nodes do not tell what they repeat", "internal/node/top.go", "\tanswer.Repeated = c.repeats.read(q)\n", ""},
		tests("internal/node", "TestTopHasTheDenialsThatNodesRepeat")},
	{mutant{"a get tells of windows that have ended", "shard/counter_threshold.go", "m.ends <= now || string(m.limit) != l.Name", "string(m.limit) != l.Name"},
		tests("shard", "TestGetTellsWhatHasFired")},
	{mutant{"a key on another shard has fired nothing", "cluster/routing/coordinate_answer.go", "append(slices.Clone(d.Fired()), fired...)", "append(slices.Clone(d.Fired()), fired[:0]...)"},
		tests("internal/node", "TestWhatHappensToKeysIsWatchedOnEveryNode")},
	{mutant{"an event that a sink has taken fires again", "shard/happening.go", "err == nil && e.At == at.Now && e.Kind", "err == nil && e.Kind"}, happenings},
	{mutant{"a block that goes on begins again", "shard/happening.go", "after.blockedUntil <= ladderIn(record.Value).blockedUntil", "after.blockedUntil < ladderIn(record.Value).blockedUntil"}, happenings},
	{mutant{"what is not committed is told", "actor/loop.go", "if f.seq == 0 || !installed {\n\t\treturn", "if f.seq == 0 {\n\t\treturn"},
		tests("actor", "TestWhatIsNotCommittedIsNotTold")},
	{mutant{"a replay is not audited", "shard/eval_outbox.go", "c.Done > 0 && by != nil {", "c.Done > 0 && by != nil && false {"}, tests("shard", "TestADeadLetterIsReplayed")},
	{mutant{"changes are told to those who see hashes", "api/service_watch.go", "!shown && e.Kind == decisions.Change {", "!shown && false {"},
		tests("api", "TestWhatHappensToKeysIsToldToThoseWhoMaySeeIt")},
}

var (
	brackets   = tests("internal/top", "TestRepeatedDenialsAreInTheBracket|TestAKeyThatItsOwnerLeftOutIsInTheBracket")
	happenings = tests("shard", "TestWhatABatchBringsAboutIsToldOnce")
)

func TestSeeMutants(t *testing.T) { judgeMutants(t, seeMutants) }
