package mutants

var ofNode = []group{
	{tests("internal/node", "TestNobodyActsOnAnOldTable"), edits{
		"old-table-makes-replicas": instead("if known := c.view.newestTable(); known.version == 0 {"),
		"old-table-aligns-groups":  always,
	}},
	{tests("internal/node", "TestACopyStopsThoughNoOtherNodeAnswers"), edits{"second-process-takes-part": never}},
	{tests("internal/node", "TestASecondProcessThatCannotReachTheFirstWaits"), edits{"second-process-hears-nobody": never}},
	{tests("internal/node", "TestASuccessorDoesNotYield"), edits{"successor-yields": without(" && !(h.records(t.Table) && report.TableVersion <= t.version)")}},
	{tests("internal/node", "TestOnlyTheListedProcessRecordsFacts"), edits{"second-process-records": always}},
	{tests("internal/node", "TestEvidenceIsBounded"), edits{"evidence-fills-the-disk": without("lowDisk || ")}},
	{tests("internal/node", "TestLostReplicasCountForTheMajority"), edits{
		"lost-replica-leaves-the-majority": before("if voter.Lost { continue }"),
	}},
	{tests("internal/node", "TestTheOnlyReplicaStopsWhenItsRecordsAreWrong"), edits{
		"stale-read-from-a-stopped-replica": without(" || replica.stopped.Load() != nil"),
	}},
	{tests("internal/node", "TestAConvictedReplicaStaysWhileItsVoteIsNeeded"), edits{
		"convicted-leaves-a-minority": instead("case voters < 0:"),
	}},
	{tests("internal/node", "TestABitThatFlipsCostsOneReplica"), edits{
		"no-conviction": swap("Convicted", "Convicted + 100"),
	}},
	{tests("internal/node", "TestAShardWithoutAMajorityOfEqualSumsStops"), edits{
		"no-majority-goes-on": swap("Disputed", "Disputed + 100"),
	}},
	{tests("internal/node", "TestAStartAfterStatus75SaysSo"), edits{"lost-end-leaves-no-word": gone}}, // R6
	{tests("internal/node", "TestTheFirstRequestWithATokenMakesAConnectionNoStrangers"), edits{
		"http-client-stays-a-stranger": swap("connlimit.Prover(c)", "func() {}"),
		"grpc-client-stays-a-stranger": swap("connlimit.Prover(raw)", "func() {}"),
	}},
	{tests("internal/node", "TestTokensOnEveryNode"), edits{
		"starts-by-kept-tokens":   instead("if !t.heard && !t.kept {"),
		"joining-node-admits-all": swap("alone, Outside: !alone", "true"),
	}},
	{tests("internal/node", "TestNoTokenIsMadeBeforeTheUpgradeIsFinished"), edits{
		"tokens-before-their-level": never,
	}},
	{tests("internal/node", "TestPlaintextIsRefusedOnPortsWithTLS"), edits{
		"browser-speaks-redis": without(`"redis"`),
	}},
	{tests("internal/node", "TestStatusShowsAnAuthorityThatExpires"), edits{"expiring-authority-unreported": gone}},
	{tests("internal/node", "TestPortsOfClientsThatOthersCanReachMustBeWanted"), edits{
		"plaintext-need-not-be-wanted": swap("c.InsecureAPI", "c.RedisAddr != c.GRPCAddr || c.InsecureAPI"),
	}},
	{tests("internal/node", "TestARemovedNodeIsOutThoughItDoesNotStop"), edits{
		"new-table-cuts-nobody": without("n.peers.recheck(); "),
	}},
	{tests("internal/node", "TestAnUnlistedPeerGetsNoDocumentsAndIsNotBelieved"), edits{
		"unlisted-peer-gets-documents": never,
		"unlisted-peer-believed":       always,
	}},
	{tests("internal/node", "TestANodeThatHasLeftByThePlannedTableLingersWhileItAnswers"), edits{
		"lingering-by-an-older-table": swap("t.Listed()", "p.view.newestTable().Listed()"),
	}},
	{tests("internal/node", "TestThreeNodesAreRestoredToOneWhichGrowsAgain"), edits{
		"restored-log-begins-too-low": swap("epochsAhead", "0*epochsAhead + 1"),
	}},
	{tests("internal/node", "TestABackupOfAnotherNumberOfShardsIsRefused"), edits{
		"backup-of-other-shards": without("before.Shards != r.Backup.Shards || "),
	}},
	{tests("internal/node", "TestTheChoiceOfAReplica"), edits{
		"newest-minority-exact":    without(`{"the newest configuration", chosen.Newest}, `),
		"previous-minority-exact":  without(`, {"the configuration before", chosen.Previous}`),
		"table-minority-exact":     without(`, {"the table", listed}`),
		"half-is-a-majority":       swap(">=", ">"),
		"forgetful-replica-counts": without(` && r.Forgetful == ""`),
		"convicted-replica-chosen": without(` && r.Convicted == ""`),
		"lost-replica-counts":      swap("listed.Lost", "false"),
		"outvoted-sum-counts":      never,
		"shorter-log-chosen":       swap(">", "<"),
	}},
	{tests("internal/node", "TestRecoverFromDisks"), edits{
		"inexact-not-filled":       swap("r.dataExact()", "r.Backup.Recovery != nil"),
		"exact-filled":             swap("r.dataExact()", "false"),
		"loss-needs-no-consent":    never,
		"parts-of-a-node-that-ran": never,
	}},
	{tests("internal/node", "TestSuspectedReplicasAreNotRecovered"), edits{
		"one-lost-shard-not-filled": swap("!s.Exact", "false"),
		"recovers-without-policies": swap("r.backup == nil", "false"),
	}},
	{tests("internal/node", "TestRecoverRefusesWhatDoesNotBelongTogether"), edits{
		"recovers-beside-a-live-node": never,
		"node-counts-twice":           never,
		"clusters-mixed":              never,
	}},
	{tests("internal/node", "TestTokensAfterARecovery"), edits{
		"tokens-of-an-older-shard": swap("b.SystemExact()", "b.Recovery != nil"),
	}},
	{tests("internal/node", "TestTheNewestPoliciesAreRecovered"), edits{
		"older-policies-recovered":       never,
		"shards-miss-recovered-policies": swap("max(before.Version, c.Revision)", "before.Version"),
	}},
	{tests("internal/node", "TestAShardOfWhichNothingIsLeftGoesAhead"), edits{
		"lost-shard-repeats-epochs": swap("s.Replicas[i].Index", "min(1, s.Replicas[i].Index)"),
	}},
	{tests("internal/node", "TestNoSecretIsRotatedBeforeTheUpgradeIsFinished"), edits{
		"rotation-before-its-level": never,
	}},
	{tests("internal/node", "TestTheSwitchToHashedKeysHasToBeMeant"), edits{"rekeyed-unasked": never}},
	{tests("internal/node", "TestANewOwnerGoesOnFromTheLog"), edits{"pusher-begins-anew": never}},
	{tests("internal/node",
		"TestBillsForStripeWaitForAPersonAfter20Hours|TestBillsThatStripeCannotBeSent|"+
			"TestOpenMeterCountsEachBillOnce|TestCloudEventsSayWhatABillComesTo"), edits{
		"untaken-bills-skipped":         swap("err", "_"),
		"stripe-sent-what-it-forgot":    never,
		"refused-bill-blocks-others":    swap("s.Kind == Stripe", "false"),
		"key-without-prefix-billed":     swap("||", "&&"),
		"customer-without-name":         without(` || name == ""`),
		"recovered-period-pushed":       never,
		"refund-pushed-as-bill":         never,
		"stripe-sent-too-old":           never,
		"refused-event-takes-its-batch": swap("==", ">="),
		"other-half-lost":               swap("events[half:]", "nil"),
	}},
	{tests("internal/notify", "TestWhatIsThereAlreadyWasDelivered"), edits{
		"own-retry-refused":       never,
		"first-conflict-delivers": without(" && m.Retry"),
	}},
	{tests("internal/node", "TestTheCanary.*"), edits{
		"canary-misses-no-count":   never,
		"canary-takes-two-for-one": never,
		"canary-alarms-at-unknown": gone,
		"canary-among-the-keys":    without(" || r.Namespace == shard.CanaryNamespace"),
	}},
	{tests("internal/node", "TestOnlyABillThatWasSentIsTriedAgain"), edits{"untried-bill-is-a-retry": swap("tried[id]", "len(tried) > 0")}},
	{tests("internal/node", "TestTopHasTheDenialsThatNodesRepeat"), edits{"repeats-unreported": gone}},
	{tests("internal/node", "TestWhatHappensToKeysIsWatchedOnEveryNode"), edits{
		"fired-lost-between-shards": swap("fired", "fired[:0]"),
	}},
}
