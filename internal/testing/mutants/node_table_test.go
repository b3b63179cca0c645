package mutants

var ofNode = []group{
	{tests("node", "TestNobodyActsOnAnOldTable"), edits{
		"old-table-makes-replicas": instead("if known := c.view.table.now(); known.version == 0 {"),
		"old-table-aligns-groups":  always,
	}},
	{tests("node", "TestASlotIsNotFrozenWhileTimesDiffer"),
		edits{
			"slot-is-away-until-times-agree":    without(" && d.apart()"),
			"frozen-just-before-it-is-too-late": swap("apartMost", "takenAhead"),
		}},
	{tests("node", "TestASlotIsNotFrozenWhileStripeMayHaveForgotten"), edits{"bill-sent-again-when-forgotten": never}},
	{tests("node", "TestASlotIsTakenInTime"), edits{"taken-ahead-of-time": gone}},
	{tests("node", "TestASlotThatCannotBeTakenGoesBack"), edits{
		"slot-is-away-as-long-as-it-waits": never,
		"slot-is-given-back-for-good":      gone,
		"slot-is-away-again-at-once":       gone,
	}},
	{tests("node", "TestMovesLeaveTimeForCallers"), edits{"moves-take-all-the-time": gone}},
	{tests("node", "TestAPageIsPutWithTheStatusOfItsRead"), edits{
		"page-goes-with-an-older-status": instead("d.fromTime = at"),
	}},
	{tests("node", "TestAMoveIsNumberedInTheTableThatListsIt"), edits{"move-of-an-old-generation": never}},
	{tests("node", "TestAMoveIsFollowedInTheChangeThatEndsIt"), edits{
		"successor-of-an-old-generation": without(" && t == then.seen"),
	}},
	{tests("node", "TestSlotsWithHoldsStopNoOthers"), edits{"held-slot-stops-the-others": instead("aside := false")}},
	{tests("node", "TestWhatASlotNeedsBeforeAStep"), edits{"thaw-before-abort": without(" && to.Ended")}},
	{tests("node", "TestACopyStopsThoughNoOtherNodeAnswers"), edits{"second-process-takes-part": never}},
	{tests("node", "TestASecondProcessThatCannotReachTheFirstWaits"), edits{"second-process-hears-nobody": never}},
	{tests("node", "TestAProcessBeginsWithTheNewestTableOnly"), edits{"second-process-goes-by-an-old-table": never}},
	{tests("node", "TestASuccessorDoesNotYield"), edits{
		"successor-yields": without(" && !(h.records(t.value) && report.TableVersion <= t.version)"),
	}},
	{tests("node", "TestOnlyTheListedProcessRecordsFacts"), edits{"second-process-records": always}},
	{tests("node", "TestTheShardsOfANodeShareItsMemory"), edits{
		"other-shards-escape-the-budget": swap("b.replicas.recordBytes()", "r.group.RecordBytes()"),
	}},
	{tests("node", "TestTheFullestCopyRefusesNewKeys"), edits{
		"full-copy-elsewhere-unseen": swap("max(own, shard.Use(r.elsewhere.Load()))", "own"),
	}},
	{tests("node", "TestAStoppingNodeSaysGoodbye"), edits{
		"stops-without-a-goodbye": swap("p.stopping()", "false"), // R10a
	}},
	{tests("node", "TestEvidenceIsBounded"), edits{"evidence-fills-the-disk": without("lowDisk || ")}},
	{tests("node", "TestLostReplicasCountForTheMajority"), edits{
		"lost-replica-leaves-the-majority": before("if voter.Lost { continue }"),
	}},
	{tests("node", "TestTheOnlyReplicaStopsWhenItsRecordsAreWrong"), edits{
		"stale-read-from-a-stopped-replica": without(" || replica.stopped.Load() != nil"),
	}},
	{tests("node", "TestANewOwnerGoesOnFromTheLog"), edits{"pusher-names-no-slots": gone}},
	{tests("node", "TestStaleReadsOutliveTheMajority"), edits{"stale-read-before-a-move": without(", Slots: founded")}},
	{tests("node", "TestAConvictedReplicaStaysWhileItsVoteIsNeeded"), edits{
		"convicted-leaves-a-minority": instead("case voters < 0:"),
	}},
	{tests("node", "TestABitThatFlipsCostsOneReplica"), edits{
		"no-conviction": swap("Convicted", "Convicted + 100"),
	}},
	{tests("node", "TestAShardWithoutAMajorityOfEqualSumsStops"), edits{
		"no-majority-goes-on": swap("Disputed", "Disputed + 100"),
	}},
	{tests("node", "TestAStartAfterStatus75SaysSo"), edits{"lost-end-leaves-no-word": gone}}, // R6
	{tests("node", "TestTheFirstRequestWithATokenMakesAConnectionNoStrangers"), edits{
		"http-client-stays-a-stranger": swap("connlimit.Prover(c)", "func() {}"),
		"grpc-client-stays-a-stranger": swap("connlimit.Prover(raw)", "func() {}"),
	}},
	{tests("node", "TestTokensOnEveryNode"), edits{
		"starts-by-kept-tokens":   instead("if !t.heard && !t.kept {"),
		"joining-node-admits-all": swap("alone, Outside: !alone", "true"),
	}},
	{tests("node", "TestPlaintextIsRefusedOnPortsWithTLS"), edits{
		"browser-speaks-redis": without(`"redis"`),
	}},
	{tests("node", "TestStatusShowsAnAuthorityThatExpires"), edits{"expiring-authority-unreported": gone}},
	{tests("node", "TestPortsOfClientsThatOthersCanReachMustBeWanted"), edits{
		"plaintext-need-not-be-wanted": swap("c.InsecureAPI", "c.RedisAddr != c.GRPCAddr || c.InsecureAPI"),
	}},
	{tests("node", "TestADrainEndsWithTheRestart"), edits{"drain-outlives-the-restart": never}},
	{tests("node", "TestANodeThatSleptThroughItsSuccessionIsToldWhenItWakes"), edits{"removed-disk-takes-part": never}},
	{tests("node", "TestARemovedNodeComesBackWithAnEmptyDirectoryOnly"), edits{
		"stale-removal-believed": without("report.RemovedBy > p.view.table.now().version && "),
	}},
	{tests("node", "TestARemovedNodeIsOutThoughItDoesNotStop"), edits{
		"new-table-cuts-nobody": without("n.peers.recheck(); "),
	}},
	{tests("node", "TestAnUnlistedPeerGetsNoDocumentsAndIsNotBelieved"), edits{
		"unlisted-peer-gets-documents": never,
		"unlisted-peer-believed":       always,
	}},
	{tests("node", "TestANodeThatHasLeftByThePlannedTableLingersWhileItAnswers"), edits{
		"lingering-by-an-older-table": swap("t.Listed()", "p.view.newestTable().Listed()"),
	}},
	{tests("node", "TestThreeNodesAreRestoredToOneWhichGrowsAgain"), edits{
		"restored-log-begins-too-low": swap("epochsAhead", "0*epochsAhead + 1"),
	}},
	{tests("node", "TestHoldsAndIDsOutliveAnotherNumberOfShards"), edits{
		"settled-again-when-parted":     never,
		"parts-that-joined-are-no-copy": always,
		"part-taken-for-the-whole":      without(" && result.Err != errInParts"),
		"home-asked-with-its-part": swap("o.whole.Entries, Own: o.whole.Own",
			"o.entriesAt(o.home), Own: o.ownAtHome()"),
	}},
	{tests("node", "TestANumberOfShardsThatComesLateIsRefused"), edits{"late-number-of-shards-counts": gone}},
	{tests("node", "TestABackupOfAnotherNumberOfShardsIsRefused"), edits{
		"backup-of-other-shards": without("before.Shards != r.Backup.Shards || "),
	}},
	{tests("internal/offline/recovery", "TestTheChoiceOfAReplica"), edits{
		"newest-minority-exact":    without(`{"the newest configuration", chosen.Newest}, `),
		"previous-minority-exact":  without(`, {"the configuration before", chosen.Previous}`),
		"table-minority-exact":     without(`{"the table", listed}`),
		"half-is-a-majority":       swap(">=", ">"),
		"forgetful-replica-counts": without(` && r.Forgetful == ""`),
		"convicted-replica-chosen": without(` && r.Convicted == ""`),
		"lost-replica-counts":      swap("listed.Lost", "false"),
		"outvoted-sum-counts":      never,
		"shorter-log-chosen":       swap(">", "<"),
	}},
	{tests("node", "TestRecoverFromDisks"), edits{
		"inexact-not-filled":    swap("r.DataExact()", "r.Backup.Recovery != nil"),
		"exact-filled":          swap("r.DataExact()", "false"),
		"loss-needs-no-consent": never,
	}},
	{tests("node", "TestSuspectedReplicasAreNotRecovered"), edits{
		"one-lost-shard-not-filled": swap("!s.Exact", "false"),
		"recovers-without-policies": swap("r.backup == nil", "false"),
	}},
	{tests("node", "TestRecoverRefusesWhatDoesNotBelongTogether"), edits{
		"recovers-beside-a-live-node": never,
		"node-counts-twice":           never,
		"clusters-mixed":              never,
	}},
	{tests("node", "TestTokensAfterARecovery"), edits{
		"tokens-of-an-older-shard": swap("b.SystemExact()", "b.Recovery != nil"),
	}},
	{tests("node", "TestARestoreDisablesSinksOfStripe"), edits{"restored-push-counts-twice": never}},
	{tests("node", "TestTheNewestPoliciesAreRecovered"), edits{
		"older-policies-recovered":       never,
		"shards-miss-recovered-policies": swap("max(before.Version, revision)", "before.Version"),
	}},
	{tests("internal/offline/recovery", "TestAPartFromBeforeTheClusterStoppedIsRefused"), edits{
		"parts-of-a-node-that-ran": never,
	}},
	{tests("internal/offline/recovery", "TestAClockThatIsBehindIsNamed"), edits{"slow-clock-made-a-part": never}},
	{tests("node", "TestANewOwnerLosesNoEventsAgain"), edits{"new-owner-loses-again": gone}},
	{tests("node", "TestAnEdgeLeavesANodeThatHangs"), edits{"edge-asks-a-silent-node": gone}},
	{tests("node", "TestWhoeverWasSilentLastIsAskedLast"), edits{
		"edge-avoids-who-answers":         gone,
		"edge-goes-back-to-a-silent-node": swap("since(b)", "since(a)"),
	}},
	{tests("node", "TestAnEdgeEndsWhenItsClusterIsRestored"), edits{
		"edge-outlives-its-cluster": never,
		"edge-knows-its-cluster":    never,
	}},
	{tests("node", "TestALostShardWithMovedSlotsIsRecovered"), edits{"lost-shard-stops-a-restore": gone}},
	{tests("node", "TestABackupIsNotRecordedAsOfTheFuture"), edits{
		"backup-of-the-future-recorded": swap("min(begun.UnixMicro(), now)", "begun.UnixMicro()"),
		"backup-of-the-future-stays":    without(" && before.value.Begun <= now"),
	}},
	{tests("node", "TestTheSwitchToHashedKeysHasToBeMeant"), edits{"rekeyed-unasked": never}},
	{tests("node", "TestANewOwnerGoesOnFromTheLog"), edits{"pusher-begins-anew": never}},
	{tests("node", "TestABillIsSentToTheSinkThatHasTheName"), edits{"bill-for-a-sink-that-is-gone": gone}},
	{tests("node", "TestAReceiverThatIsGoneDisablesNoSuccessor"), edits{
		"successor-is-disabled": without(" || !meant(*s)"),
	}},
	{tests("node", "TestASuccessorDoesNotRestForASink"), edits{"successor-rests": gone}},
	{tests("node", "TestASinkFailsNoLongerThanItIsOwedSomething"), edits{"sink-fails-for-another-owner": never}},
	{tests("node", "TestBillsThatStripeMayHaveForgottenWaitForTheSinkToBeDisabled"), edits{
		"stripe-sent-unlooked": swap("!p.disable(ctx, s, why)", "!p.disable(ctx, s, why) && false"),
	}},
	{tests("node", "TestTheLastBillsOfAMeterArePushed"), edits{
		"last-bill-of-a-meter-stays": swap("len(p.Notify) > 0", "len(p.Notify) > 0 && p.Meter != nil"),
	}},
	{tests("node", "TestAnEventGoesToTheSinkThatHasTheName"), edits{
		"event-waits-for-another-sink": gone,
		"try-judges-a-successor":       never,
	}},
	{tests("internal/notify", "TestAnAnswerMeansWhatItsReceiverMeans"), edits{
		"refused-bill-blocks-others": swap("s.Kind == Stripe", "false"),
	}},
	{tests("node",
		"TestBillsForStripeWaitForAPersonAfter20Hours|TestBillsThatStripeCannotBeSent|"+
			"TestOpenMeterCountsEachBillOnce|TestCloudEventsSayWhatABillComesTo"), edits{
		"untaken-bills-skipped":         swap("err", "_"),
		"stripe-sent-what-it-forgot":    never,
		"key-without-prefix-billed":     swap("||", "&&"),
		"customer-without-name":         without(` || name == ""`),
		"recovered-period-pushed":       never,
		"refund-pushed-as-bill":         never,
		"stripe-sent-too-old":           never,
		"refused-event-takes-its-batch": swap("==", ">="),
		"other-half-lost":               swap("events[half:]", "nil"),
	}},
	{tests("internal/notify", "TestARefusalWithoutItsReasonIsNone"), edits{"refused-without-a-reason": never}},
	{tests("internal/notify", "TestAnAnswerThatEndsBecauseItIsCutIsNotWhole"), edits{
		"cut-answer-is-whole": swap("inTime", "(inTime || true)"),
	}},
	{tests("internal/notify", "TestWhatIsThereAlreadyWasDelivered"), edits{
		"own-retry-refused":       never,
		"first-conflict-delivers": without(" && m.Retry"),
	}},
	{tests("node", "TestTheCanary.*"), edits{
		"canary-misses-no-count":   never,
		"canary-takes-two-for-one": never,
		"canary-alarms-at-unknown": gone,
		"canary-among-the-keys":    without(" || r.Namespace == shard.CanaryNamespace"),

		"canary-leaves-a-shard-with-its-key": instead("return false"),
		"shard-without-slots-falls-silent":   gone,
	}},
	{tests("node", "TestOnlyABillThatWasSentIsTriedAgain"),
		edits{"untried-bill-is-a-retry": swap("tried[id]", "len(tried) > 0")}},
	{tests("node", "TestTopHasTheDenialsThatNodesRepeat"),
		edits{"repeats-unreported": swap("c.repeats.read(q)", "nil")}},
	{tests("node", "TestWhatHappensToKeysIsWatchedOnEveryNode"), edits{
		"fired-lost-between-shards": swap("fired", "fired[:0]"),
	}},
}
