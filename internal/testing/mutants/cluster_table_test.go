package mutants

var ofCluster = []group{
	{tests("cluster/placement", "TestANodeDoesWhatTheTableSays"), edits{
		"wiped-replica-keeps-its-number": swap("MarkLost", "Create"),
		"evidence-deleted":               never,
	}},
	{tests("cluster/placement", "TestBusyShardsAreLedByDifferentNodes"), edits{
		"idle-groups-count-as-busy": instead("return g != nil"),
	}},
	{tests("cluster/placement", "TestTheTableKeepsTheProcessThatAnswers"),
		edits{"second-process-is-listed": instead("return answers || report.At == m.Node")}},
	{tests("cluster/placement", "TestALostReplicaIsReplacedOnItsOwnNode"),
		edits{"lost-voter-stays-while-another-comes": never}},
	{tests("cluster/placement", "TestALeaderBringsItsGroupInLine"),
		edits{"second-voter-of-a-node": without(" || a.crowded(r)")}},
	{tests("cluster/placement", "TestNobodyLeavesBelowTheQuorum"), edits{
		"voter-leaves-below-majority": always,
	}},
	{tests("cluster/placement", "TestTheLevelRisesWhenAllDirectoriesCarryItAndTheTableIsFenced"), edits{
		"level-before-directories": swap("r.Kept >= p.l.Next", "true"),
		"level-without-fence":      swap("p.t.Level < p.l.Next", "false"),
	}},
	{tests("cluster/placement", "TestANodeThatCannotReadIsNotAdmitted"), edits{
		"admits-a-node-that-cannot-read": swap(">= p.t.Level", "> 0"),
	}},
	{tests("cluster/placement", "TestEachReplicaJudgesItselfByTheMajority"), edits{
		"any-other-sum-convicts":        instead("if count < 1 {"),
		"sums-of-two-versions-compared": without("s.Version == other.Version && "),
		"late-sum-not-awaited":          swap("true", "false"),
	}},
	{tests("cluster/placement", "TestNodesThatGossipAndAnswerAreRegistered"), edits{
		"removed-disk-comes-back": without(" && report.Fresh"),
	}},
	{tests("cluster/placement", "TestALeavingNodeLetsItsClientsGoBeforeItIsRemoved"), edits{
		"leaving-node-loses-its-clients": without(" && !p.seen.Lingers[n.ID]"),
	}},
	{tests("cluster/placement", "TestEveryNodeOpensWhatAnotherOneSeals"), edits{
		"secret-seals-unconfirmed": never,
		"sealing-secret-dropped":   gone,
	}},
	{tests("cluster/placement", "TestARotationTakesItsStepsWhenAllNodesKnowTheLast"), edits{
		"secret-ends-in-use": before("next.end(now)"),
		"secret-never-ends":  instead("ended := false"),
	}},
	{tests("cluster/placement", "TestDroppedSecretsAreGone"), edits{
		"dropped-secret-opens": swap("one.Number", "next.Sealing = append(next.Sealing, one); one.Number"),
	}},
	{tests("cluster/placement", "TestARestoredClusterSealsWithASecretOfItsOwn"), edits{
		"restored-cluster-seals-as-before": without("next.Seals = "),
	}},
	{tests("cluster/placement", "TestTheSecretOfKeysIsNeverReplaced"), edits{
		"restored-cluster-changes-key-secret": without(", Keys: s.Keys"),
		"dropped-secrets-take-the-keys":       without(", Keys: s.Keys"),
		"key-secret-drawn-twice":              gone,
	}},
	{tests("cluster/placement", "TestALaterShardWasFoundedWithoutSlots"), edits{
		"lagging-replica-has-the-slot": without(" && t.Groups[i].Number == 0"),
	}},
	{tests("cluster/placement", "TestALaterGroupIsFoundedOnce"),
		edits{"later-group-with-the-first-number": without(", Number: p.t.NextNumber")}},
	{tests("cluster/placement", "TestAGroupIsFoundedWhenAllOfItsVotersCanBe"),
		edits{"group-founded-with-too-few": swap("welcoming < voters", "welcoming < 1")}},
	{tests("cluster/placement", "TestSlotsMoveWhereGroupsAreWell"), edits{
		"slot-moves-beside-a-repair":             never,
		"slot-moves-to-a-group-without-majority": swap("&& to", "|| to"),
	}},
	{tests("cluster/placement", "TestSlotsMoveUntilTheShardsAreEven"), edits{"more-moves-than-two": instead("for {")}},
	{tests("cluster/placement", "TestOtherSlotsMoveWhileSomeWaitForHolds"), edits{
		"moves-aside-without-end": without(" && len(p.t.Moves) < movesMax+asideMax"),
	}},
	{tests("cluster/placement", "TestAMoveIsFollowedByAnotherOne"), edits{
		"third-move-follows":             without(" || len(ended.Moves) >= movesMax"),
		"next-move-beside-a-repair":      never,
		"next-move-between-other-shards": without(" && next.To == m.To"),
	}},
	{tests("cluster/placement", "TestASlotDoesNotBeginASecondMove"), edits{"slot-moves-twice": never}},
	{tests("cluster/placement", "TestWhoSucceedsALeaderThatHasDied"), edits{
		"succeeds-without-evidence": without("!self.Dead || "), // R10b
		"learner-attests":           without(" || !slices.Contains(voters, other.Name)"),
		"older-log-succeeds":        never,
		"attests-without-evidence":  without("other.Dead && "),
		"attests-to-another-leader": without("other.Leader == self.Leader && "),
		"attests-to-another-term":   without(" && other.Term == self.Term"),
		"minority-succeeds":         swap("len(voters)/2", "0"),
		"equals-succeed-together":   swap("cmp.Or(newer, ", "min(newer, "),
	}},
	{tests("cluster/gossip", "TestWhatANodeDoesNext"), edits{
		"founding-without-a-founder": without(" || m.State != MemberAlive || m.Cluster != f.Cluster"),
	}},
	{tests("cluster/gossip", "TestTheHighestEpochWins|TestADroppedHintDoesNotComeBack"), edits{
		"older-hint-wins": swap(">=", "=="),
	}},
	{tests("cluster/gossip", "TestKeysAreReplacedWhileNodesGossip"), edits{
		"gossip-keeps-a-removed-line": swap("RemoveKey", "AddKey"),
	}},
	{tests("cluster/routing", "TestAnIDThatWasGivenUpIsAskedOfNobodyElse"), edits{"given-up-id-is-asked-on": never}},
	{tests("cluster/routing", "TestRetriesAreASmallPartOfTheLoad"), edits{"each-waiter-asks-around": always}},
	{tests("cluster/routing", "TestWhoHangsIsNotAskedFirstAgain"), edits{
		"silent-node-asked-first": never,
		"each-caller-turns":       swap("CompareAndSwap(t.turn, t.after)", "Add(1)"),
	}},
	{tests("cluster/routing", "TestAfterAnUnknownOutcomeOnlyADecisionIsCertain"), edits{
		"late-refusal-speaks-for-all": always,
	}},
	{tests("cluster/routing", "TestWithoutSessionAndIDAnUnknownOutcomeIsFinal"), edits{
		"retries-without-id-or-session": always,
	}},
	{tests("cluster/routing", "TestACopyThatComesLateCountsNothing"), edits{
		"second-copy-unmarked":     gone,
		"new-number-for-each-copy": instead("r.Session, r.Number, r.Acked = shard.Session{}, 0, 0"),
	}},
	{tests("cluster/routing", "TestASettlementAskedForAgainIsAnsweredWhole"), edits{
		"given-back-twice": swap("legSettled", "legCommitted"),
	}},
	{lucky(tests("cluster/routing", "TestAnOperationIsAllOrNothing", "-worlds=200")), edits{
		"leg-released-without-home": instead("result := shard.Result{}; " +
			"result.Decision.Operation = &shard.Verdict{State: shard.OperationAborted}"),
		"silent-leg-ends-itself": instead(
			"if result.Err != nil { result.Decision.Operation = &shard.Verdict{State: shard.OperationAborted} }; " +
				"if header.Leg == header.Home {"),
		"leg-acknowledged-unheard":         always,
		"home-decides-twice-in-operations": never,
	}},
	{tests("cluster/routing", "TestTheOwnerIsSoughtWhereItMostLikelyIs|TestNewsWakeThoseWhoWait"), edits{
		"router-disbelieves-no-owner": without("err.Code == shard.NotOwner, "),
	}},
	{tests("cluster/routing", "TestAMoveFailsNothing|TestAReservationInSlotsThatPartIsAnOperation", "-worlds=20"),
		edits{
			"moved-request-fails":      without("err.Code == shard.Moved || "),
			"spread-reservation-fails": without(" || err.Code == shard.Spread"),
		}},
	{tests("cluster/routing", "TestALearnedSlotIsRememberedUntilTheTableSaysMore"), edits{
		"learned-slot-outlives-the-table": always,
	}},
	{tests("cluster/routing", "TestAShardThatCannotBeIsNotLearned"), edits{"any-shard-is-believed": never}},
	{tests("cluster/routing", "TestAnOldTableEndsNoHold"), edits{
		"parted-by-an-old-table": never, "hold-ended-by-a-shard-without-home": always,
	}},
	{tests("cluster/routing", "TestARefundThatIsHalfDoneIsNotRefused"), edits{"half-a-refund-is-none": always}},
	{tests("cluster/routing", "TestARefundThatHomeRefusesIsMadeNowhere"), edits{"parts-refunded-after-a-no": never}},
	{tests("cluster/routing", "TestACopyAsksItsShardFirst"), edits{
		"moved-copy-is-the-first": instead("s.request.Retry = false"),
	}},
	{tests("cluster/routing", "TestAShardThatTakesOverASlotIsAskedAgainSoon"), edits{
		"importing-shard-is-no-owner": swap("inAMoment(results[i].Err)", "false"),
	}},
	{tests("cluster/routing", "TestForwardedRequestsThatNoNodeSendsAreRefused"), edits{
		"newer-shard-is-no-shard": never,
	}},
	{tests("cluster/routing", "TestWhatIsNotWorthRepeatingIsNotKept"), edits{
		"repeated-denial-admits": instead("if said.Replayed || said.Age < 0 || said.Age >= q.life {"),
	}},
	{tests("cluster/routing", "TestADenialOfAForgottenKeyIsDropped"), edits{"forgotten-key-among-denials": gone}},
	{tests("cluster/routing", "TestALease.*|TestOnlyAPlainCheckIsLeased|TestAClockThatIsSetBackEndsALease"), edits{
		"lease-of-former-policies":        without("l.revision != revision || "),
		"lease-outlives-a-sleep":          swap("at.Boot >= l.stops.Boot", "false"),
		"lease-outlives-its-wall-clock":   swap("at.Wall >= l.stops.Wall", "false"),
		"lease-survives-a-clock-set-back": swap("at.Wall < l.seen-readLate", "false"),
		"holder-spends-to-the-end":        without(" - LeaseMargin(length)"),
		"lease-counts-from-its-answer":    swap("r.at.Boot + g.Within", "h.config.Clock().Boot + g.Within"),
		"leased-answer-unseen":            gone,
	}},
	{tests("cluster/routing", "TestAChangeByHandEndsTheLease"), edits{
		"lease-survives-a-change":         gone,
		"lease-granted-beside-a-change":   gone,
		"lease-held-from-before-a-change": without("k.changes != r.changes || "),
	}},
	{tests("cluster/routing", "TestAChangeByHandEndsTheLeasesOfOtherNodes"), edits{
		"others-spend-before-a-change":   gone,
		"others-spend-on-after-a-change": gone,
	}},
	{tests("internal/holder", "TestAForgottenKeyIsInNoLease"), edits{"forgotten-key-among-leases": gone}},
	{tests("internal/holder", "TestASleepIsSeenAtOnce"),
		edits{"sleep-unseen-for-a-moment": without(" && parted < stepLeast")}},
	{tests("internal/holder", "TestALeaseIsSpentOnce"),
		edits{"lease-spent-twice": swap("l.units-l.spent < cost", "l.units == 0")}},
	{tests("cluster/routing", "TestAnUnknownGrantIsReturnedAndNotHeld"),
		edits{"unknown-grant-kept-from-others": never}},
	{tests("internal/holder", "TestACheckAloneGetsNoLease"),
		edits{"lease-for-one-check": without(" || k.asked == k.since")}},
	{tests("internal/holder", "TestLeasesAreOfAFixedNumberOfKeys"), edits{"leases-of-any-number": never}},
	{tests("cluster/routing", "TestNothingIsWasted"), edits{"stopped-node-keeps-its-leases": gone}},
	{tests("cluster/routing", "TestEachRepetitionIsTold"), edits{
		"repeated-denial-unseen": gone,
		"quick-denial-unseen":    gone,
	}},
	{tests("cluster/hop", "TestNothingLeavesAfterAGoodbye"), edits{"calls-after-goodbye": gone}},
	{tests("cluster/hop", "TestTheFateOfCallsWhoseConnectionBreaks"), edits{
		"broken-means-not-executed": swap(`unknown("the connection broke")`, "unreached()"),
	}},
	{tests("cluster/hop", "TestFrameGoldenBytes"), edits{"softness-lost-between-shards": without(" || s.Soft")}},
	{tests("cluster/peer", "TestTheTableAdmits"), edits{
		"table-does-not-admit":  never,
		"removed-node-connects": never,
	}},
	{tests("cluster/peer", "TestRemovalCutsStandingConnections"), edits{
		"removal-cuts-nothing": swap("!= 0", "> 100"),
	}},
	{tests("cluster/peer", "TestAConnectionThatIsMadeDuringARemovalDoesNotStand"), edits{
		"connects-during-removal": swap("!= 0", "> 100"),
	}},
	{tests("cluster/peer", "TestWhatSaysThatAProcessHasDied"), edits{
		"dead-though-it-connects":           gone, // R10a
		"own-end-is-death":                  gone,
		"dead-while-a-connection-stands":    without("v.open == 0 && "),
		"dead-one-by-one":                   without(" && now.Sub(v.first) <= diesWithin"),
		"dead-after-a-goodbye":              without(" && !v.parting"),
		"dead-though-it-listens":            without(" && p.refuses(node)"),
		"unreachable-is-dead":               swap("ctx.Err() == nil && (", "true || ("),
		"any-question-takes-a-goodbye-back": always,
	}},
	{tests("cluster/peer", "TestOthersHearNoIDs"), edits{"strangers-hear-ids": never}},
	{tests("cluster/peer", "TestTheLineThatWasRemovedIsRefusedAndItsConnectionsEnd"), edits{
		"removed-line-accepted":        instead("if len(key.lines) >= len(f.Key().lines) { f.inForce.Store(key) }"),
		"removed-line-stays-connected": swap(`line != "" && !slices`, `line == "" && slices`),
	}},
	{tests("cluster/peer", "TestForwardedRequestsMoveToTheLineThatSends"), edits{
		"requests-stay-on-the-old-line": swap("!= lines[0]", `== ""`),
	}},
	{tests("cluster/peer", "TestAKeyFileThatCannotBeUsedLeavesTheLastContentInForce"), edits{
		"key-file-half-written": never,
	}},
}
