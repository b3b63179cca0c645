package sim

import (
	"path/filepath"
	"testing"
)

// clusterMutant is a guard of a node or of its cluster, and the cheapest tests that see it taken away: those of a
// package, or whole clusters.
type clusterMutant struct {
	mutant
	seenBy suite
}

// fewClusters plays few worlds: enough for what loses or invents units wherever something fails.
func fewClusters(first, worlds string) suite {
	return suite{"-run=^TestClusters$", "./internal/sim", "-sim.first=" + first, "-sim.worlds=" + worlds}
}

// calmCluster plays a calm world: no request may fail in it.
var calmCluster = suite{"-run=^TestClusters$", "./internal/sim", "-sim.seed=54"}

// tests runs some tests of a package.
func tests(pkg, names string) suite { return suite{"-run=^(" + names + ")$", "./" + pkg} }

var clusterMutants = []clusterMutant{
	// What hashicorp/raft must be kept from.
	{mutant{"heartbeats overtake the main goroutine", "raftfsm/transport.go",
		"func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}\n", ""},
		tests("raftfsm", "TestHeartbeatsDoNotOvertakeTheMainGoroutine|TestGroupsKeepHeartbeatsInLine")},
	{mutant{"a leader with a hung disk goes on sending heartbeats", "raftfsm/transport.go", "if t.hung() {", "if false {"},
		tests("raftfsm", "TestHungReplicaIsSilent|TestLeaderWithAHungDiskIsReplaced")},
	{mutant{"raft is given pipelines", "raftfsm/transport.go", "MaxRPCsInFlight: 1,", "MaxRPCsInFlight: 2,"},
		tests("raftfsm", "TestTransportHasNoPipelines")},
	{mutant{"a future without an error is taken for success", "raftfsm/propose.go", "if !ok {", "if !ok && g == nil {"},
		tests("raftfsm", "TestForeignResponseIsFatal")},
	{mutant{"a vote is written in two steps", "raftfsm/stable.go", "\t\ts.voteTerm = value\n\t\treturn nil\n",
		"\t\t_, candidate, _ := s.vote()\n\t\ts.voteTerm = value\n\t\treturn s.file.put(s.prefix+keyVoteFor, " +
			"append(binary.BigEndian.AppendUint64(nil, value), candidate...))\n"},
		tests("raftfsm", "TestVoteIsAtomic")},
	{mutant{"a learner votes before it has caught up", "raftfsm/members.go",
		"if err := g.behind(name); err != nil {", "if err := g.behind(name); false {"},
		tests("raftfsm", "TestLearnerIsPromotedWhenItHasCaughtUp")},
	// Disks.
	{mutant{"answers before the log is on the disk", "raftfsm/log.go", "s.db.ApplyNoSyncWait(batch, pebble.Sync)", "s.db.Apply(batch, pebble.NoSync)"},
		tests("raftfsm", "TestCrashLosesNothingAcknowledged|TestFailedFsyncStopsEverythingOnce")},
	{mutant{"a failed write is tried again", "raftfsm/failfs.go",
		"if err != nil {\n\t\tf.poison.fail(", "if false {\n\t\tf.poison.fail("},
		tests("raftfsm", "TestFailedWriteIsSeenBeforePebbleSeesIt")},
	{mutant{"a replica whose disk failed votes on", "raftfsm/group.go",
		"!g.cfg.Lone && g.stores.suspicion.names(replica)", "false"},
		tests("raftfsm", "TestSuspicion|TestReplicasOfAFailedDiskAreReplaced")},
	{mutant{"a replica without its log votes", "raftfsm/boot.go",
		"if len(record.Voters) > 0 && b.snapshotIndex == 0 && b.lastIndex == 0 {", "if false {"},
		tests("raftfsm", "TestReplicaThatLostItsStoresIsLost")},
	{mutant{"a wiped node makes its replica anew under the old number", "cluster/reconcile.go",
		"return Action{Kind: MarkLost, Shard: g.Shard, Number: r.Number}\n\tcase r.Created || r.Lost",
		"return Action{Kind: Create, Shard: g.Shard, Number: r.Number}\n\tcase r.Created || r.Lost"},
		tests("cluster", "TestANodeDoesWhatTheTableSays")},
	// The table, and who changes it.
	{mutant{"a voter leaves below the majority", "cluster/plan_replicas.go",
		"return s.works() && remain > (s.voters-1)/2", "return true"},
		tests("cluster", "TestNobodyLeavesBelowTheQuorum|TestRandomWorldsKeepTheirMajoritiesAndComeToRest")},
	{mutant{"the founding does not wait for a founder", "cluster/formation_view.go",
		"m == nil || m.State != MemberAlive || m.Cluster != f.Cluster) {", "m == nil) {"},
		tests("cluster", "TestWhatANodeDoesNext|TestWhateverHappensAtMostOneClusterIsFounded")},
	{mutant{"an older hint wins", "cluster/hint.go", "known.Epoch >= hint.Epoch", "known.Epoch == hint.Epoch"},
		tests("cluster", "TestTheHighestEpochWins|TestADroppedHintDoesNotComeBack")},
	// Requests on their way.
	{mutant{"a refusal of a later copy is told as one of all", "cluster/route_errand.go",
		"if !r.Retry || err.MaybeApplied() {", "if true {"},
		tests("cluster", "TestAfterAnUnknownOutcomeOnlyADecisionIsCertain|TestWhateverFailsTheCallersHearTheTruth")},
	{mutant{"what has no id and no session is asked again", "cluster/route_errand.go",
		"return r.Number != 0 || r.ID != \"\" || r.Operation != nil || !r.Op.Changes()", "return true"},
		tests("cluster", "TestWithoutSessionAndIDAnUnknownOutcomeIsFinal|TestWhateverFailsTheCallersHearTheTruth")},
	{mutant{"a second copy does not say so", "cluster/route_errand.go", "\t\t\tr.Retry = true\n", ""},
		tests("cluster", "TestWhateverFailsTheCallersHearTheTruth|TestACopyThatComesLateCountsNothing")},
	{mutant{"a broken connection is told as not executed", "cluster/hop_link.go",
		"l.finish(c, l.unknown(\"the connection broke\"))", "l.finish(c, l.unreached())"},
		tests("cluster", "TestTheFateOfCallsWhoseConnectionBreaks")},
	// Time.
	{mutant{"an epoch without a majority's clocks", "actor/time.go", "\treturn a.config.Reference()\n",
		"\tahead, _ = a.config.Reference()\n\treturn ahead, true\n"},
		tests("actor", "TestNoReferenceNoEpoch")},
	// Operations on several shards.
	{mutant{"a leg is released without home's word", "cluster/coordinate_finish.go",
		"\t\tresult := o.send(ctx, o.home, shard.Request{Op: shard.ResolveHome, Operation: &about, NotAfter: notAfter})\n",
		"\t\tresult := shard.Result{Decision: shard.Decision{Operation: &shard.Verdict{State: shard.OperationAborted}}}\n"},
		tests("cluster", "TestAnOperationIsAllOrNothing")},
	{mutant{"a leg that hears nothing ends by itself", "cluster/coordinate_finish.go",
		"if result.Err != nil || about.Leg == about.Home || result.Decision.Operation == nil {",
		"if result.Err != nil {\n\t\t\tresult.Decision.Operation = &shard.Verdict{State: shard.OperationAborted}\n\t\t}\n" +
			"\t\tif about.Leg == about.Home {"},
		tests("cluster", "TestAnOperationIsAllOrNothing")},
	{mutant{"a leg is acknowledged before it has heard", "cluster/coordinate_finish.go",
		"\t\tif results[i].Err == nil {\n\t\t\tmessages", "\t\tif true {\n\t\t\tmessages"},
		tests("cluster", "TestAnOperationIsAllOrNothing")},
	{mutant{"home decides whatever the legs say", "shard/operation_home.go",
		"denied := slices.ContainsFunc(o.Legs, func(l Leg) bool { return !l.Allowed })", "denied := false"},
		tests("cluster", "TestAnOperationIsAllOrNothing")},
	{mutant{"home decides twice", "shard/operation_home.go",
		"if u := e.ruling(key); u != nil {\n\t\tif u.fingerprint", "if u := e.ruling(key); u != nil && false {\n\t\tif u.fingerprint"},
		tests("shard", "TestHomeDecidesOnce")},
	{mutant{"a committed outcome is forgotten before its legs know", "shard/operation_home.go",
		"case u.state != OperationAborted && u.isPending():", "case u.isPending():\n\t\tforgetAt, u.due = e.at.Now+1, 0\n\tcase false:"},
		tests("shard", "TestACommittedOutcomeIsKeptUntilEveryLegKnows")},
	{mutant{"what home does not know it does not abort", "shard/operation_home.go",
		"\t\te.writeRuling(key, u)\n\t}\n\tif u.state == OperationHeld", "\t}\n\tif u.state == OperationHeld"},
		tests("shard", "TestWhatHomeDoesNotKnowIsAbortedFromThenOn")},
	{mutant{"home decides after it has forgotten", "shard/operation_home.go",
		"if r.NotAfter != 0 && e.at.Now > r.NotAfter {\n\t\treturn Result{Err: errOperationEnded} // a", "if false {\n\t\treturn Result{Err: errOperationEnded} // a"},
		tests("cluster", "TestAnOperationIsAllOrNothing")},
	{mutant{"no tombstone", "shard/operation_leg.go", "\t\te.leaveTombstone(key, r)\n", ""},
		tests("shard", "TestAReleaseThatFindsNothingLeavesATombstone")},
	{mutant{"a charge is answered after its release", "shard/operation_leg.go",
		"\t\tcase l.state.ended():\n\t\t\treturn Result{Err: errOperationEnded}\n", "\t\tcase false:\n"},
		tests("shard", "TestAChargeIsNeverMadeAgain")},
	{mutant{"a verdict is about any charge", "shard/operation_leg.go",
		"return len(r.Operation.Legs) == 1 && placeOf(&r.Operation.Legs[0].Decision) == placeOf(&l.answer)", "return true"},
		tests("shard", "TestAVerdictIsAboutOneCharge")},
	{mutant{"a charge that home does not know is confirmed", "shard/operation_home.go", "\tif at < 0 {",
		"\tif at < 0 {\n\t\treturn v\n\t}\n\tif at < 0 {"},
		tests("shard", "TestHomeConfirmsOnlyWhatItHasRuled")},
	{mutant{"a decision is given back twice", "shard/operation_settle.go",
		"\tl.state = legSettled\n", "\tl.state = legCommitted\n"},
		tests("cluster", "TestAnOperationIsAllOrNothing")},
	// Waits.
	{mutant{"waits know nothing of other numbers", "shard/denied.go", "if !e.extras && !e.changing() {", "if !e.extras {"},
		tests("shard", "TestWaitUnderChangedNumbersIsExact")},
	// The same and more, seen by whole clusters.
	{mutant{"nobody waits for the disk", "raftfsm/log.go", "s.db.ApplyNoSyncWait(batch, pebble.Sync)", "s.db.Apply(batch, pebble.NoSync)"},
		fewClusters("1", "6")},
	{mutant{"a new number for every copy", "cluster/route_errand.go", "\t\t\tr.Retry = true\n",
		"\t\t\tr.Session, r.Number, r.Acked = shard.Session{}, 0, 0\n"},
		fewClusters("1", "6")},
	{mutant{"no idempotency record, in clusters", "shard/evaluate.go",
		"if answer.Err == nil && answer.Decision.Index != 0 {\n\t\te.record", "if false {\n\t\te.record"},
		fewClusters("1", "4")},
	{mutant{"a decision is refunded twice, in clusters", "shard/settle.go", "e.lookup(endKey(name)); found {",
		"e.lookup(endKey(name)); found && t.Hold {"},
		fewClusters("1", "6")},
	{mutant{"a lease is over when its settlement comes, in clusters", "shard/evaluate.go", "\t\tc.expire(e.at.Now)\n", ""},
		fewClusters("1", "4")},
	{mutant{"a commit keeps its lease, in clusters", "shard/extras.go",
		"if (back || l.limit.Algorithm == limit.Concurrency) && l.counts(h) {", "if back && l.counts(h) {"},
		fewClusters("1", "4")},
	{mutant{"a node that stops hands nothing over", "node/lead.go",
		"if r.lone || !r.group.Leading() {\n\t\t\treturn", "if true {\n\t\t\treturn"}, calmCluster},
	{mutant{"a hand-over does not wait for what is under way", "actor/sequencer.go",
		"if !q.paused || len(q.inFlight) > 0 {", "if !q.paused {"},
		tests("actor", "TestHandover|TestSimulation")},
	{mutant{"the router does not believe who says that it is no owner", "cluster/route_errand.go",
		"\tcase err.Code == shard.NotOwner, err.Code", "\tcase err.Code"},
		tests("cluster", "TestTheOwnerIsSoughtWhereItMostLikelyIs|TestNewsWakeThoseWhoWait")},
}

// TestClusterMutants takes each of those guards away. What sees it is in the table, not in a simulation of one shard.
func TestClusterMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs tests once for each mutant")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range clusterMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			replace := map[string]string{filepath.Join(root, m.file): m.write(t, root)}
			output, failed := m.seenBy.simulate(t, root, replace)
			// A world of a seed has the same faults each time, not the same order of goroutines: it may miss a mutant once.
			for tries := 1; !failed && tries < 3; tries++ {
				output, failed = m.seenBy.simulate(t, root, replace)
			}
			if !failed {
				t.Fatalf("%v does not see it:\n%s", m.seenBy, output)
			}
			t.Log(reason(output))
		})
	}
}
