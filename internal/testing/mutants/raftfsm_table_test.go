package mutants

var ofRaftfsm = []group{
	{tests("raftfsm", "TestHeartbeatsDoNotOvertakeTheMainGoroutine|TestGroupsKeepHeartbeatsInLine"), edits{
		"heartbeats-have-no-handler": gone,
	}},
	{tests("raftfsm", "TestHungReplicaIsSilent|TestLeaderWithAHungDiskIsReplaced"), edits{
		"hung-leader-beats-on": never,
	}},
	{tests("raftfsm", "TestTransportHasNoPipelines"), edits{"raft-pipelines": swap("InFlight: 1", "InFlight: 2")}},
	{tests("raftfsm", "TestForeignResponseIsFatal"), edits{"no-error-is-success": swap("!ok", "!ok && g == nil")}},
	{tests("raftfsm", "TestVoteIsAtomic"), edits{
		"vote-written-in-two-steps": instead(
			"_, candidate, _ := s.vote(); s.voteTerm = value; return s.file.put(s.prefix+keyVoteFor, " +
				"append(binary.BigEndian.AppendUint64(nil, value), candidate...))"),
		"vote-read-in-two-writes": before("if s.voteTerm != 0 { return s.voteTerm, b[8:], nil }"), // R5
	}},
	{tests("raftfsm", "TestLearnerIsPromotedWhenItHasCaughtUp"), edits{
		"learner-votes-behind": never,
		"voter-with-nothing":   never,
	}},
	{tests("raftfsm", "TestCrashLosesNothingAcknowledged|TestFailedFsyncStopsEverythingOnce"), edits{
		"answers-before-fsync": instead("return d.Apply(batch, pebble.NoSync)"),
	}},
	{tests("raftfsm", "TestReplicaThatLostItsStoresIsLost"), edits{"replica-without-log-votes": never}},
	{tests("raftfsm", "TestChangeWithoutAMajorityEnds"), edits{
		"uncommitted-change-recorded": without(" && g.raft.CommitIndex() >= index"),
		"members-of-a-cut-log":        gone,
	}},
	{tests("raftfsm", "TestADirectoryCarriesItsLevelAndAnOlderBinaryRefusesIt"), edits{"opens-a-newer-level": never}},
	{tests("raftfsm", "TestADirectoryOfABuildBeforeTheFirstReleaseIsRefused"),
		edits{"opens-a-directory-of-any-format": never}},
	{tests("raftfsm", "TestWhatWasSaidSurvivesAPowerCut"), edits{
		"votes-not-fsynced":          without("file.Sync(), "),
		"new-directory-not-fsynced":  instead("return nil"),                         // R16
		"snapshot-name-not-fsynced":  swap("syncDir(s.files, s.dir)", "error(nil)"), // R16
		"snapshot-files-not-fsynced": swap("syncDir(s.files, draft)", "error(nil)"), // R16
		"snapshot-not-fsynced":       without("k.file.Sync(), "),                    // R16
		"disk-mark-not-fsynced":      instead("return f.Close()"),                   // R6
		"disk-mark-name-not-fsynced": instead("return nil"),                         // R6
	}},
	{tests("raftfsm", "TestVoteIsAtomic|TestRestartKeepsEverything"), edits{
		"node-forgets-its-vote": before("if err == nil && s.voteTerm == 0 { err = errNotFound }"),
	}},
	{tests("raftfsm", "TestAConvictedReplicaDoesNotComeBack"), edits{"conviction-ends-with-the-process": never}},
	{tests("raftfsm", "TestGroupsKeepHeartbeatsInLine"), edits{
		"heartbeats-overtake": swap("(func(raft.RPC)) {}",
			"(f func(raft.RPC)) { t.NetworkTransport.SetHeartbeatHandler(f) }"), // R1
	}},
	{tests("raftfsm", "TestFailedWriteIsSeenBeforePebbleSeesIt"), edits{"failed-write-is-not-the-end": never}}, // R6
	{tests("raftfsm", "TestAnyOperationOnTheLogMayFail"), edits{
		"pebble-hears-of-a-failed-open": instead("if f.failed(what, name, err) { return nil, err } else {"), // R6
	}},
	{tests("raftfsm", "TestNothingIsTakenForDoneThatCameAfterTheFailure"), edits{
		"scratch-writes-believed": gone, // R6
	}},
	{tests("raftfsm", "TestAnyOperationOfAStartMayFail"), edits{
		"record-of-what-pebble-did-not": swap("f.fault.cause()", "error(nil)"), // R6
	}},
	{tests("raftfsm", "TestReplicasOfAFailedDiskAreReplaced"), edits{"failed-disk-trusted-again": gone}},        // R6
	{tests("raftfsm", "TestWhyTheDiskEndedAProcessIsToldToTheNext"), edits{"failed-disk-leaves-no-word": gone}}, // R6
	{tests("raftfsm", "TestLeaderWithAHungDiskIsReplaced"), edits{
		"hung-leader-not-silent": swap("g.guard.hung.Load", "func() bool { return false }"), // R7
	}},
	{tests("raftfsm", "TestStuckTransferIsReported"), edits{
		"stuck-transfer-retried-forever": swap("> 2*g.electionTimeout()", "< 0"), // R9
	}},
	{tests("raftfsm", "TestWipedDiskUnderItsOldNumber"), edits{
		"opens-what-was-never-created": instead("_ = fmt.Errorf; return groupRecord{Replica: replica}, nil"), // R12a
	}},
	{tests("raftfsm", "TestReplicaIsDestroyedBeforeItIsCreated"), edits{"number-used-again": never}}, // R12a
	{tests("raftfsm", "TestVoterThatMissedAChangeVotes"), edits{"voter-refuses-later-replicas": instead("break")}},
	{tests("raftfsm", "TestVoterThatDoesNotKnowItYetVotes"), edits{
		"voter-refuses-before-its-own-vote": swap("t.voter()", "t.LocalAddr()"),
	}},
	{tests("raftfsm", "TestWhoMustNotSucceedDoesNot"), edits{
		"leader-succeeds-itself":   never, // R10c
		"succeeds-in-a-newer-term": never,
		"succeeds-another-leader":  never,
		"learner-succeeds":         without(" && s.Suffrage == raft.Voter"),
	}},
	{tests("raftfsm", "TestAVoterSucceedsALeaderThatHasDied"), edits{
		"candidate-of-no-version": swap("raft.ProtocolVersionMax", "0"), // R10c
	}},
	{tests("raftfsm", "TestAVoterThatGrantedItsVoteDoesNotStand"), edits{
		"candidate-overtakes-its-own-vote": instead("c.stands <- c.may() && " +
			"t.pass(&raft.TimeoutNowRequest{RPCHeader: header})"),
	}},
	{tests("raftfsm", "TestEntryIsReplicatedBesideTheLeadersFsyncAndCommittedAfterIt"), edits{
		"leader-counts-before-its-disk": never,
	}},
	{tests("raftfsm", "TestLastVoterCommitsNothingThatItsDiskDoesNotHave"), edits{
		"only-voter-ahead-of-its-disk":    without(" && !isOnlyVoter(l.guard.group, l.roster.latest().conf)"),
		"configuration-ahead-of-the-disk": without("!configures(logs) && "),
	}},
	{tests("raftfsm", "TestAVoteIsAskedForOnAnyConnection"), edits{
		"vote-asked-on-one-connection": instead("for range 1 {"),
	}},
	{tests("raftfsm",
		"TestEntriesAreSentAgainOnceTheFollowerAnswers|"+
			"TestAnEntryOutlivesTheConnectionsThatCarriedIt|TestAFollowerThatWasAwayIsNotKeptWaiting"), edits{
		"lost-entries-wait": swap("After(failed)", "After(failed.Add(resendWithin))"), // R13
	}},
	{tests("raftfsm", "TestEntriesAreSentAgainOnceTheFollowerAnswers"), edits{
		"entries-lost-with-a-kept-connection": swap("onAnyConnection",
			"func(once func() error) error { return once() }"), // R13
	}},
	{tests("raftfsm", "TestTermWaitsForWhatTheOldOneWrote"), edits{
		"term-overtakes-the-log": gone,
		"vote-overtakes-the-log": gone,
	}},
	{tests("raftfsm", "TestASnapshotThatFindsNoRoomLeavesNothing"), edits{
		"full-disk-keeps-a-draft": swap("errors.Join(err, k.store.files.RemoveAll(k.draft))", "err"),
	}},
	{tests("raftfsm", "TestALineOfSlowWritesIsNotAHungDisk"), edits{"slow-line-is-a-hang": gone}},
	{tests("raftfsm", "TestDamagedSmallFileIsAnError"), edits{
		"two-pages-claim-a-third":   swap("true", "at == id"), // R15
		"bolt-opens-a-damaged-file": swap("checkBolt(path)", "error(nil)"),
	}},
	{tests("raftfsm", "TestSnapshotsAreFinishedOneAfterTheOther"), edits{
		"snapshots-finish-at-once": instead("return func() {}"),
	}},
	{tests("raftfsm", "TestASnapshotThatIsHalfDeletedIsNoLoss"), edits{
		"snapshot-deleted-in-place": swap("remove(old.ID)", "files.RemoveAll(s.files.PathJoin(s.dir, old.ID))"),
	}},
	{tests("raftfsm", "TestTornEndOfTheLogIsNoticed"), edits{
		"torn-log-is-a-crash":     always,
		"only-voter-goes-on-torn": never,
	}},
	{tests("raftfsm", "TestMarkIsYoung"), edits{"tail-mark-not-fsynced": swap("t.slots.SyncData()", "error(nil)")}},
	{tests("raftfsm", "TestMarkSpeaksOfWhatIsFsynced"), edits{
		"tail-mark-ahead-of-fsync": swap("synced, t.newest.syncedSum", "written, t.newest.sum"),
	}},
	{tests("raftfsm", "TestNoLogFileGoesWhileItIsMarked"), edits{"marked-log-file-goes": instead("return nil")}},
	{tests("raftfsm", "TestMarkEndsWithAVersionThatWritesNone"), edits{
		"mark-outlives-an-older-version": swap("!= t.marked.Session", `== ""`),
	}},
	{tests("raftfsm", "TestWhatIsSaidToBeThereIsFsynced"), edits{
		"bolt-never-fsynced": swap("Options{Path", "Options{NoSync: true, Path"), // R5
	}},
	{tests("raftfsm", "TestSmallFileThatIsCutUnderAProcessStopsIt"), edits{
		"bolt-fault-ends-the-process": swap("defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))",
			"debug.SetPanicOnFault(false)"),
	}},
	{tests("raftfsm", "TestOpenDataDirectoryIsClosed"), edits{"data-directory-open-to-all": always}},
	{tests("raftfsm", "TestLinksAreNotFollowed"), edits{"lock-follows-links": swap("err == nil", "false")}},
	{tests("raftfsm", "TestFollowerCatchesUpByANarrowLink"), edits{"message-of-any-length": never}},
	{tests("raftfsm", "TestFollowerRestsWhileTheOthersCommit"), edits{
		"withheld-answer-blocks-a-commit": without("committed >= last && "),
		"rests-while-others-are-silent":   swap("==", "<"),
		"rests-without-bound":             swap("< last+restEntries", "> 0"),
	}},
	{tests("raftfsm", "TestOwnerIsReplacedInTimeWhileAFollowerLags"), edits{
		"pre-vote-asked-once": swap("err != nil", "true || err != nil"), // G10
	}},
	{tests("raftfsm", "TestIdleGroupIsSnapshottedAfterAMove"), edits{
		"no-configuration-store": swap("StoreConfiguration", "storeConfiguration"), // R11
	}},
	{tests("raftfsm", "TestALateHeartbeatWaitsForNoBeat"), edits{
		"late-heartbeat-waits-for-a-beat": always,
	}},
	{tests("raftfsm", "TestHeartbeatsOfAllGroupsLeaveTogether"), edits{
		"heartbeats-leave-one-by-one":     gone, // R13
		"awaited-commit-waits-for-a-beat": without(" && args.LeaderCommitIndex == 0"),
	}},
	{tests("raftfsm", "TestFollowersOfAnIdleGroupKnowWhatIsCommitted"), edits{
		"heartbeat-without-commit": swap(">", "<"), // R13
	}},
	{tests("raftfsm", "TestAHeartbeatSaysWhatIsCommitted"), edits{
		"heartbeat-commits-too-much": swap("min(t.committed(args.Term), known.index)", "t.committed(args.Term)"),
		"heartbeat-of-another-term":  without(" && known.term == args.Term"),
	}},
	{tests("raftfsm", "TestWhatIsCommittedIsSaidInItsTerm"), edits{"commit-of-another-leader": never}},
	{tests("raftfsm", "TestAFollowerThatLostAnEntryHearsItsLeader"), edits{
		"lagging-follower-not-helped": swap("err == nil && !resp.Success", "false"),
	}},
	{tests("raftfsm", "TestHalfARestoreDoesNotStart"), edits{
		"half-a-restore-starts":      swap("filling == nil", "false"),
		"broken-restore-looks-empty": swap("restoring ||", "restoring && false ||"),
	}},
	{tests("raftfsm", "TestRemainsAreReadAndNotChanged"), edits{
		"torn-log-is-whole":             gone,
		"reads-the-disk-of-a-live-node": swap("files.Lock(path)", "io.Closer(nil), error(nil)"),
	}},
	{tests("raftfsm", "TestRemainsSayWhatSpeaksAgainstAReplica"), edits{"conviction-not-read": never}},
}
