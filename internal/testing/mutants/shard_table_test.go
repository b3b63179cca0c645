package mutants

var ofShard = []group{
	// Sessions: worlds of copies.
	{tests("shard", "TestCopiesAreCountedOnce", "-seed=1"), edits{
		"session-remembers-no-count": gone,
		"copy-runs-after-a-no":       without(" || e.s.closed.has(e.r.Number)"),
		"finished-copy-runs":         without("e.r.Number <= e.s.acked || "),
		"time-asked-before-session": before(
			"if r.NotAfter != 0 && e.at.Now > r.NotAfter { e.decideInTime(r, answer); return }"),
		"reservation-copy-lacks-its-hold": swap("e.r.Op.answersOnce()", "false"),
		"reservation-copy-holds-again":    swap("has(e.r.Number)", "has(e.r.Number) && e.r.Op != Reserve"),
	}},
	{tests("shard", "TestACopyOfADenialOutlivesItsID"), edits{"copy-of-a-denied-id-is-allowed": gone}},
	{tests("shard", "TestACopyOfAChangeTellsOfLeases"), edits{"copy-of-a-change-hides-leases": gone}},
	// Holds, settlements, ladders, overrides and changes of policies, beside the slow twin.
	{tests("shard",
		"TestEveryDecisionIsTheTwins|TestASuccessThatStepsDownEndsTheBlock|TestALiftedBucket.*|"+
			"TestAnOverrideForgivesNothing|TestADenialKnowsWhenAnOverrideEnds", "-seed=1", "-operations=250000"), edits{
		"hold-ends-twice":                gone,
		"holds-expire-after-their-batch": gone,
		"violation-when-noticed":         swap("h.expires", "now"),
		"expired-hold-commits":           swap("!found", "!found && h.cost > 0"),
		"refunded-twice":                 swap("e.room.brimful() && t.Hold", "!t.Hold"),
		"refund-reaches-a-later-window":  swap("windowStart(l, s, now)", "0"),
		"refund-crosses-a-reset":         without("(h.taken > l.since || h.fresh && h.taken == l.since) && "),
		"uncounted-limit-refunded": swap("!slices.Contains(counted, print)",
			"slices.Contains(counted[:0], print)"),
		"id-lacks-what-was-granted":          instead("e.Cost = r.Entries[i].Cost"),
		"concurrency-refunds-what-it-became": without("!s.Uncounted && "),
		"success-lifts-manual-block":         instead("*l, x.block = ladder{}, 0"),
		"reset-lifts-manual-block":           swap("clearLadder", "unblock"),
		"manual-block-hides-ladder": instead(
			"until := x.block; if until == 0 { until = x.ladder.blockedUntil }"),
		"ladder-does-not-climb":       instead("l.level = 1"),
		"ladder-never-forgiven":       never,
		"success-lifts-no-block":      gone,
		"block-does-not-deny":         gone,
		"denials-not-counted":         instead("if !e.blocked && false && !d.Challenged() {"),
		"expired-override-used":       without(" && (o.Expires == 0 || o.Expires > now)"),
		"new-numbers-reinterpret-use": instead("s = k.state"),
		"settles-again":               swap("found {", "found && t.Hold && len(record.Value) == 0 {"),
		"waits-ignore-holds": swap("future(now)",
			"future(now); if x := futures[i].counter.extras; x != nil { x.holds = nil }"),
		"waits-ignore-overrides":          swap("o.Expires != 0 && o.Expires < limit.MaxTime", "false"),
		"ended-override-forgives":         swap("c.override()", "nil"),
		"lifted-bucket-refunds-uncounted": swap("o == Count || l.Unlimited", "false"),
		"commit-keeps-concurrency":        instead("if back && l.counts(h) {"),
		"check-takes-concurrency":         instead("if false && (op.decides() || op == Count) {"),
		"shadow-denial-refunded":          without("!s.Allowed || "),
		"replay-lacks-hold-expiry":        swap("&d.HoldExpires", "new(int64)"),
	}},
	// Leases: what they hold, and what they have spent.
	{tests("shard", "TestWhatIsLeasedIsNotLeft|TestLeasesTakeTheShareOfWhatIsLeft|TestADeadHolderHasSpentItsLease|"+
		"TestAReturnedLeaseGivesBackWhatWasNotSpent|TestAReturnNeedsNoPolicy|TestALease.*|"+
		"TestARevisionKeepsTheTierOfALeasedKey|TestARevisionOfOtherPoliciesReadsNoRecord|"+
		"TestAMovedLease.*|TestAChangeSaysUntilWhenLeasesLast|TestABlockedKeyIsNotLeased|TestLostLeasesAreSpentAfterARestore|"+
		"TestALostLeaseAndWhatFollowsStayWithinTheLimit"), edits{
		"leased-units-are-left":             swap("&rest", "l"),
		"leases-take-all-that-is-left":      swap("left-min(left, ch.counter.extras.leased())", "left"),
		"dead-holder-spent-nothing":         gone,
		"lease-counted-when-noticed":        swap("h.expires", "now"),
		"lease-counts-under-former-numbers": without(" && c.extras.leased() == 0"),
		"forgotten-before-its-lease":        swap("c.extras.leased() == 0", "true"),
		"returned-lease-spent-nothing":      instead("_ = h"),
		"lease-outlives-its-window":         instead("_ = l"),
		"lease-shorter-than-its-margin":     swap("length <= LeaseMargin(length)", "length <= 0"),
		"blocked-key-is-leased":             swap("c.extras.blockedUntil(now) != 0", "false"),
		"new-limit-misses-a-lease":          gone,
		"change-holds-at-once":              instead("_ = h"),
		"revision-misses-a-lease":           instead("_ = p"),
		"leased-key-changes-its-tier":       gone,
		"lease-of-a-former-policy-missed":   gone,
		"every-revision-reads-all":          swap("len(changed) == 0", "false"),
		"moved-key-misses-a-lease":          swap("!m.storeLeased(r)", "true"),
		"forgotten-lease-is-free":           instead("_, _ = h, limits"),
		"forgotten-lease-changes-its-tier":  swap("p.TierOf(c.has, c.override())", `""`),
		"return-of-a-removed-tier-refused":  without(" || r.returnsLease()"),
		"lease-crosses-nothing":             instead("_, _ = s, after"),
		"lost-leases-spent-again":           never,
		"lease-refills-a-full-bucket":       gone,
	}},
	{tests("shard", "TestAReturnNeedsNoRoom"), edits{"return-needs-room": without(" && !r.returnsLease()")}},
	{tests("shard", "TestNothingSpentInRealTimeExceedsALimit", "-seed=1"), edits{
		"lease-spent-to-its-end": swap("500e3", "0"),
	}},
	{tests("shard", "TestAPolicyThatCountsDenialsIsRefusedOnSeveralShards"), edits{
		"denial-counter-off-on-many-shards": swap("op != Count", "false"),
	}},
	{tests("shard", "TestALookOnALegIsNeitherHeldNorSettled"), edits{
		"look-needs-a-hold":    never,
		"leg-holds-for-a-look": never,
	}},
	{tests("shard", "TestHomeDecidesOnce"), edits{
		"home-decides-twice":    never,
		"home-ignores-the-legs": instead("denied := false"),
	}},
	{tests("shard", "TestALegEndsByHomesWordOnly"), edits{"aborted-leg-keeps-its-holds": gone}},
	{tests("shard", "TestAHoldThatNobodySettlesExpiresEverywhere"), edits{
		"leg-keeps-what-was-settled": before("if l.state == legHeld { l.state = legCommitted; break }"),
	}},
	{tests("shard", "TestTranscripts"), edits{
		"tally-adds-again": swap("!e.room.brimful()", "!e.room.brimful() && r.Op != Tally"),
		"snapshot-lacks-sessions": before(
			"var gone []string; for key := range s.table.All() { if len(key) > 0 && key[0] == sessionRecord { " +
				"gone = append(gone, string(key)) } }; for _, key := range gone { s.table.Forget(key) }"),
	}},
	{tests("shard", "TestACommittedOutcomeIsKeptUntilEveryLegKnows"), edits{
		"outcome-forgotten-early": instead("case u.isPending(): forgetAt, u.due = e.at.Now+1, 0; case false:"),
	}},
	{tests("shard", "TestWhatHomeDoesNotKnowIsAbortedFromThenOn"), edits{
		"home-aborts-no-unknown":        gone,
		"home-decides-after-forgetting": never,
	}},
	{tests("shard", "TestCopiesOfAnOperationAreAnsweredByItsRuling"), edits{
		"ruling-answered-anew": without(" || e.decidedAcross(e.r, at, answer)"),
	}},
	{tests("shard", "TestAMessageForAMovedSlotIsRefused"), edits{"message-for-a-former-owner": never}},
	{tests("shard", "TestACopyOfANumberAsksWhereItsIDWent"), edits{"moved-answer-made-up": gone}},
	{tests("shard", "TestAnExtensionOfAnOperationCountsOnceForItsID"),
		edits{
			"operation-extended-again":            swap("found {", "found && false {"),
			"settlement-takes-the-id-of-its-hold": never,
		}},
	{tests("shard", "TestAnExtensionOfAnOperationCountsOnceForItsNumber"), edits{
		"operation-extended-by-a-copy": instead("_ = s; return r.Operation != nil"),
	}},
	{tests("cluster/routing", "TestARetryIsTheSameRequestWhateverParentsThereAre", "-seed=1"), edits{
		"parents-are-of-the-request":    instead("return r.Entries"),
		"operation-counted-again-alone": instead("return answer.Err != nil"),
		"home-of-a-parent":              swap("cmp.Or(r.Own, len(r.Entries))", "cmp.Or(len(r.Entries))"),
		"new-parent-is-given-back":      swap("took = n > 0 || r.Own == 0 || i < r.Own", "took = true"),
	}},
	{tests("cluster/routing", "TestAnIDOfOneKeyIsNotThatOfSeveral", "-seed=1"), edits{"id-of-a-leg-is-free": gone}},
	{tests("cluster/routing", "TestCopiesAreOneRequestWhileAParentComesAndGoes", "-seed=1", "-worlds=20"), edits{
		"operation-counts-what-was-counted-alone": never,
	}},
	{tests("shard", "TestAPageOfFinalBillsHasNoMoreThanWasAskedFor"), edits{"page-above-its-most": never}},
	{tests("shard", "TestAMarkOutlivesALoweredRetention"),
		edits{"marks-end-with-a-lowered-retention": swap("RetentionMost()", "Retention")}},
	{tests("shard", "TestAPeriodKeepsItsZone"), edits{"period-changes-its-zone": instead("_ = ahead")}},
	{tests("limit", "TestASaturatedStateIsReadBack"),
		edits{"log-saturates-at-each-instant": swap("maxUnits-s.B", "maxUnits")}},
	{tests("shard", "TestAReleaseThatFindsNothingLeavesATombstone"), edits{"no-tombstone": gone}},
	{tests("shard", "TestAChargeIsNeverMadeAgain"), edits{"charge-answered-after-release": instead("case false:")}},
	{tests("shard", "TestAVerdictIsAboutOneCharge"), edits{"verdict-for-any-charge": always}},
	{tests("shard", "TestHomeConfirmsOnlyWhatItHasRuled"), edits{
		"unknown-charge-confirmed": before("if at < 0 { return v }"),
	}},
	// Changes of numbers happen at their instant.
	{tests("shard", "TestChangesInEveryOrder|TestARaisedRateReachesAUsedUpKey|TestARevisionMovesOnlyWhatItChanges|"+
		"TestAKeyIsKeptForTheEndOfItsOverride|TestARevisionReachesAKeyWhoseOverrideEndedUnseen|"+
		"TestARevisionWithoutATierReachesWhatWasTakenUnderIt"), edits{
		"denial-keeps-old-numbers":             gone,
		"read-leaves-new-numbers":              instead("if reads = false; reads {"),
		"revision-when-noticed":                swap("o.batch.revisions.of(o.batch.view, c.policy.Name, k.name)", "limit.Forever"),
		"override-ends-when-noticed":           swap("at)", "o.batch.at.Now)"),
		"override-begins-when-noticed":         gone,
		"revision-skips-an-ended-override":     swap("revised <= at || revised == limit.Forever", "revised >= 0"),
		"forgotten-before-its-override-ends":   without(", restsWithout(c, o, now)"),
		"every-revision-changes-all":           gone,
		"settlement-of-a-removed-tier-refused": never,
	}},
	// Meters: what is billed, where it comes back to, and what a reader sees.
	{tests("shard", "TestEveryDecisionIsTheTwins", "-seed=1", "-operations=300000"), edits{
		"look-leaves-a-record":          never,
		"denied-look-counted":           without(" || ch.looks"),
		"revision-does-not-begin-anew":  without("c.policy.OnChange == policy.Restart || "),
		"swept-counts-forever":          gone,
		"admitted-not-billed":           gone,
		"asked-billed-not-granted":      swap("cost", "entry.Cost"),
		"excess-not-billed":             gone,
		"settlement-credits-nothing":    gone,
		"expiry-credits-nothing":        gone,
		"expiry-credits-when-noticed":   swap("h.expires", "now"),
		"final-period-changes":          without(" && at < p.final()"),
		"closed-period-is-final":        swap("final()", "end"),
		"credit-to-any-period":          without("p.start <= taken && taken < p.end && "),
		"period-takes-what-comes-after": swap("at >= m.periods[n-1].end", "false"),
		"periods-overlap":               gone,
		"reset-ends-a-bill":             swap(`name == ""`, `c.meters = nil; name == ""`),
		"reader-leaves-holds-open":      gone,
		"correction-is-units": instead(
			"p.units, p.revised = p.units+uint64(r.Adjustment.Amount), e.at.Now"),
		"correction-begins-a-period":     swap("place < len(m.periods)-1 && i >= 0", "false"),
		"correction-of-a-dropped-period": without("p.keptUntil() <= now || "),
		"page-claims-its-own-batch":      without(" - 1"),
	}},
	{tests("shard", "TestALookBesideATake"), edits{"look-takes": swap("op, cost = Peek,", "cost =")}},
	{tests("shard", "TestEntryOfAnotherVersionHalts"), edits{"entry-of-any-level": never}},
	{tests("shard", "TestHomeSettlesTogetherWithTheExcess"), edits{"excess-not-committed": gone}},
	{tests("shard", "TestAnExcessThatWasGivenUpIsNotSettledWith"), edits{
		"settled-with-a-dead-excess": swap("u != nil", "u != nil && false"),
	}},
	{tests("shard", "TestALegSettlesWithoutTheExcess"), edits{"leg-settles-the-excess-again": gone}},
	{tests("shard", "TestAnExcessGivesBackWhatCountedIt"), edits{
		"excess-returns-what-others-hold": swap("s.Uncounted", "_"),
	}},
	{tests("shard", "TestALegIsChargedAnExcessThatFits"), edits{
		"room-for-any-excess": swap("r.Entries[i].Cost <= s.Remaining", "true"),
	}},
	{tests("shard", "TestSumsDoNotDependOnWhatWasSwept"), edits{"sum-holds-what-may-be-swept": swap(">", ">=")}},
	{tests("shard/table", "TestAFlippedBitIsInNoPicture"), edits{
		"snapshot-ignores-its-records": swap("(records != p.records || sum != p.sum)", "records > maxRecords"),
	}},
	{tests("shard/table", "TestHeadsAreUsedAgain"), edits{
		"head-reused-too-early":      swap("== 0", "< 5"),
		"head-changes-in-a-snapshot": never,
	}},
	{tests("shard", "TestARestoredShardAdmitsNothingTwice"), edits{
		"restored-unknown-key-at-rest": instead("return limit.State{}"),
		"restored-window-goes-on":      instead("l.state, l.since = found, c.At"),
		"lost-handle-settles":          instead("var err *Error"),
	}},
	{tests("shard", "TestAHigherTierIsFullToo"), edits{"restored-tier-not-full": instead("return s")}},
	{tests("shard", "TestWhatNeverResetsContinuesWithTheBackup"), edits{"refund-crosses-a-restore": gone}},
	{tests("shard", "TestHoldsThatNobodyKnowsCountForAsLongAsAHoldMayLast"), edits{
		"unknown-holds-ignored": instead("l.state = limit.SetUsed(l.limit, limit.State{}, l.state.A, c.At)"),
	}},
	{tests("shard", "TestADecisionOnSeveralShardsThatWasLostIsNotRefunded"), edits{"lost-operation-refunded": never}},
	{tests("shard", "TestIDsAfterARestore"), edits{"lost-id-runs-again": instead("return nil")}},
	{tests("shard", "TestAPersonClearsAKeyThatIsFull"), edits{"cleared-key-full-again": without("!l.cleared && ")}},
	{tests("shard", "TestAMarkThatCannotBeReadRefuses"), edits{"unreadable-mark-ignored": never}},
	{tests("shard", "TestAnExactRestoreLosesNothing"), edits{
		"exact-restore-fills":        always,
		"exact-restore-forgets-gaps": gone,
	}},
	// Another number of shards.
	{tests("shard", "TestWhatWasLostIsNamedByItsShard"), edits{
		"gap-of-any-shard":             without("at.Shard == g.shard && "),
		"growth-after-a-restore-loses": without("t.DecidedAt >= m.full.At || "),
	}},
	{tests("shard", "TestShardTimeIsThatOfTheNewest"), edits{
		"shard-time-of-one-shard": instead("r.At = s.time"),
		"exact-restore-ahead":     gone,
	}},
	{tests("shard", "TestKeysOfAnOpenHoldStayTogether"), edits{
		"spanning-hold-parted":      without("on != to && "),
		"ended-hold-stays-together": without(" || h.expires <= s.after"),
	}},
	{tests("shard", "TestEventsAndTheAuditLogGoAlong"), edits{
		"event-stays-with-its-shard": swap("Of(c.Slots, e.Namespace, e.Key)", "c.heir()"),
	}},
	{tests("shard", "TestAShardThatLearnedOfNumbersLateAdoptsThem"), edits{
		"revision-before-the-newest-count": gone,
	}},
	// Moves of slots.
	{tests("shard", "TestASlotMovesWithAllItHas"), edits{
		"frozen-slot-counts":   never,
		"key-of-another-shard": instead("return nil"),
		"frozen-twice":         never,
		"page-put-twice":       never,
	}},
	{tests("shard", "TestStepsOfAMove"), edits{
		"old-generation-moves":       without(" || m.t.Generation != m.status.Generation+1"),
		"page-of-a-slot-in-use":      never,
		"drop-before-freeze":         instead("m.set(SlotStatus{State: SlotMoved, Generation: m.t.Generation, Other: m.t.To})"),
		"taken-before-the-last-page": without(" || !m.status.Ended"),
		"page-missing":               never,
		"abort-after-take":           instead("case true:"),
	}},
	{tests("shard", "TestAFreezeIsTheLastOfItsBatch"), edits{
		"frozen-for-the-next-batch": swap("requests[decided].Op == MoveSlot || requests[decided-1].Op == MoveSlot",
			"false"),
	}},
	{tests("shard", "TestASlotWaitsForHoldsThatSpan"), edits{
		"freeze-parts-a-hold":      never,
		"hold-spans-a-moving-slot": never,
	}},
	{tests("shard", "TestAnAbortedMoveGoesBack"), edits{
		"aborted-move-begins-again": swap("<", "<="),
		"thaw-keeps-its-generation": swap("m.t.Generation + 1", "m.t.Generation"),
	}},
	{tests("shard", "TestASlotOfManyPages"), edits{
		"begins-over-remains": never,
		"thaw-after-drop":     without(" && !m.status.Ended"),
	}},
	{tests("shard", "TestThePagesWaitForTimeAndPolicies"), edits{
		"page-ahead-of-time":        never,
		"taken-ahead-of-a-page":     never,
		"page-under-older-policies": never,
	}},
	{tests("shard", "TestAMovedBucketRefillsOnce"), edits{
		"leased-key-changes-unnoticed": never,
		"moved-bucket-refills-twice":   gone,
	}},
	{tests("shard", "TestAMoveFromARestoredShard"), edits{"marks-of-two-restores": never}},
	{tests("shard", "TestNoBillOfAMovedSlotIsPassed"), edits{
		"bill-passed-by-its-new-pusher": gone,
		"bill-passed-while-frozen":      gone,
		"pusher-at-work-steps-over":     gone,
	}},
	{tests("shard", "TestAKeyIsForgottenAfterItsMove"), edits{"forgotten-while-it-moves": never}},
	{tests("shard", "TestDutiesMoveWithTheirSlot"), edits{
		"frozen-slot-does-its-duties": never,
	}},
	{tests("shard", "TestASlotIsListedOnce"), edits{
		"listed-on-both-shards": swap("shown.has(string(key))", "(shown.has(string(key)) || true)"),
		"billed-by-both-shards": never,
	}},
	{tests("shard", "TestASlotThatComesIsNotPassed"), edits{
		"slot-comes-behind-its-pusher": never,
	}},
	{tests("shard", "TestARestoreTakesASlotFromItsOwner"), edits{
		"restore-takes-a-former-owner": without(" || generation > s.generation"),
		"restore-without-a-slot":       never,
	}},
	{tests("shard", "TestARestoreTakesNothingFromBeforeAMove"), edits{
		"restore-takes-what-was-before-a-move": swap("of.owner == source.id", "(of.owner == source.id || !source.slotted)"),
	}},
	{tests("shard", "TestASlotOfALostShardBeginsFull"), edits{"lost-slot-stops-a-recovery": without(" && !r.Lost")}},
	{tests("shard", "TestAMovedKeyGetsARevisionWhenItMoves"), edits{
		"moved-key-forgets-a-revision": instead("if err := error(nil); err != nil {"),
	}},
	{tests("shard", "TestNoBillIsLeftOutOfAPush"), edits{
		"walk-goes-on-for-others":  swap("at == other", "at.Done <= other.Done"),
		"greatest-push-position":   swap("min", "max"),
		"skipped-bill-comes-twice": without(" && own(source)"),
	}},
	{tests("shard", "TestAnOperationEndsBeforeItsKeyIsForgotten"), edits{
		"forgotten-under-an-open-leg": never,
		"leg-refunds-a-forgotten-key": gone,
	}},
	{tests("shard", "TestAHeldOperationExpiresWhenItsKeyIsForgotten"), edits{
		"held-operation-outlives-its-key": swap("OperationHeld", `OperationHeld && f.key == ""`),
	}},
	{tests("shard", "TestNothingOfAForgottenKeyIsKept"), edits{
		"audit-keeps-the-key":       instead("a.Key = f.key"),
		"longer-neighbor-forgotten": swap("string(name) != f.key", "!bytes.HasSuffix(name, key)"),
	}},
	{tests("shard", "TestABillEndsOnlyIfItIsMeant"), edits{"bills-forgotten-unasked": never}},
	{tests("shard", "TestALateCopyOfAForgetEndsNothing"), edits{
		"late-forget-forgets-again": swap("ReadUsage", "Forget"),
	}},
	{tests("shard", "TestAForgetIsAloneInItsBatch"), edits{
		"forget-misses-its-batch": swap("requests[decided].Op == Forget || requests[decided-1].Op == Forget",
			"false"),
	}},
	{tests("shard", "TestAPageEndsItsBatch"), edits{
		"pages-share-a-batch": swap("requests[decided-1].Op == ReadUsage", "false"),
	}},
	{tests("shard", "TestAPolicyHasNoMoreKeysThanItsCap"), edits{"batch-passes-the-cap": never}},
	{tests("shard", "TestAPolicyHasNoMoreKeysThanItsCapByOneRequest"), edits{
		"request-passes-the-cap": instead("_ = ch"),
	}},
	{tests("shard", "TestWhoeverHasMostOfAShardLeavesTheRestToOthers"), edits{
		"ids-on-one-key-fill-a-shard":      instead(`if e.crowdedBy(r) != nil && r.ID == "" {`),
		"alone-may-not-fill":               without("one.Keys < all.Keys && "),
		"inline-labels-escape-their-share": swap("InlinePolicy[0]", "0"),
	}},
	{tests("shard", "TestAShardHasItsPartOfACap"), edits{
		"every-shard-has-the-whole-cap": swap("e.room.keys(p.MaxKeys)", "p.MaxKeys"),
		"share-of-a-cap-rounds-down":    without("+slot.Count-1"),
	}},
	{tests("shard", "TestNobodyEmptiesTheAuditLogOfOthers"), edits{"audit-emptied-by-one": never}},
	{tests("shard/table", "TestAScanMeetsEveryRecord"), edits{"scan-continues-elsewhere": never}},
	{tests("shard", "TestSharesComeBackFromASnapshot"), edits{"snapshot-forgets-shares": gone}},
	{tests("shard", "TestAKeyOfTheOtherFormIsNotCounted"), edits{
		"other-form-counted":      swap("r.Op == Settle || r.Revision > b.policies.Version()", "true"),
		"tally-of-the-other-form": instead("{"),
	}},
	// Thresholds: what fires, and how often.
	{tests("shard", "TestAThresholdFiresInTheWindowsOfNewNumbers"),
		edits{"mark-of-a-longer-window": without(" && m.ends <= ends")}},
	{tests("shard", "TestEveryDecisionIsTheTwins", "-seed=2", "-operations=400000"), edits{
		"threshold-fires-each-crossing":  swap("m.units == units", "false"),
		"threshold-fires-once-for-all":   without("m.ends > now && "),
		"threshold-fires-while-exceeded": swap("before < units", "(before < units || true)"),
		"mark-for-all-limits":            without(" && m.limit == name"),
		"marks-end-early":                swap("now", "now+60e6"),
		"counter-forgotten-with-marks":   gone,
		"excess-crosses-nothing":         instead("ch.counter.set(j, l, s, now)"),
		"lifted-limit-has-shares":        never,
		"crossing-without-event":         instead("c.crossed = nil"),
	}},
	// The outbox: which sinks must have heard of an event.
	{tests("shard",
		"TestAnEventWaitsForEachOfItsSinks|TestADeadLetterIsReplayed|TestAFullOutboxStopsNothing|"+
			"TestASpikeIsToldOnceInTenMinutes|TestAPushGoesOnlyForward|TestAForgottenKeyIsInNoEvent|"+
			"TestARestoreKeepsEventsAndIDs|TestGoldenBytesOfEvents|"+
			"TestABrimfulShardLosesTheEventOnly"), edits{
		"event-leaves-with-one-sink":       always,
		"any-history-acknowledged":         without(" && e.Place() == p"),
		"full-outbox-grows":                swap("o.head.bytes > outboxMost", "false"),
		"lost-event-uncounted":             gone,
		"replay-loses-the-letter":          gone,
		"dead-letter-without-reason":       swap("why", `""`),
		"replayed-letter-keeps-its-reason": gone,
		"spike-reported-twice":             never,
		"late-push-steps-back":             swap("!= p.Version", "> 1<<60"),
		"forgotten-key-in-events":          gone,
		"event-id-changes-with-use":        swap("Units", "Used"),
	}},
	{tests("shard",
		"TestAMeterComesAndGoes|TestARestoreMarksWhatItMayHaveLost|"+
			"TestABrimfulShardBeginsNoPeriod|TestPeriodsCloseWithoutAnEntry"), edits{
		"credit-from-before-the-meter": swap("taken >= m.since", "true"),
		"credit-from-a-pause":          swap("p.from <= taken && taken < p.until", "false"),
		"bill-dropped-with-limits":     gone,
		"restore-hides-lost-bills":     gone,
		"new-period-hides-restore":     instead("p.recovered = false"),
		"brimful-shard-begins-periods": never,
	}},
	{tests("shard", "TestNoBillIsLeftOutAmongKeysOfOneHash"), edits{
		"push-ends-within-a-hash": swap("begins && (", "(begins || page.Periods != nil) && ("),
	}},
	{tests("shard", "TestABillIsFinalBeforeItIsForgotten"), edits{
		"forgotten-when-it-is-final": without("+limit.Span(p.end-p.start)"),
	}},
	{tests("shard", "TestACreditIsKeptAsLongAsItsPeriod"), edits{"credit-forgotten-early": never}},
	{tests("shard", "TestACorrectionIsMadeOnce|TestACorrectionIsOnRecord"), edits{
		"correction-copied":    swap("NoteSpike", "NoteSpike, CorrectUsage"),
		"correction-of-any-id": swap(", System: r.System}", "}"),
		"corrections-share-a-revision": swap(
			"requests[decided].Op == CorrectUsage || requests[decided-1].Op == CorrectUsage", "false"),
		"correction-off-record": swap("auditLog{&e.batch}.note", "func(*Adjustment, AuditRecord) {}"),
	}},
	{tests("shard",
		"TestTranscripts|TestADenialIsAChallengeIfOnlySoftLimitsDeny"), edits{
		"soft-hides-hard":            without(" || denies && !s.Soft"),
		"soft-hides-block":           without("s.Blocked || "),
		"challenge-counts-as-denial": without(" && !d.Challenged()"),
	}},
	{tests("shard", "TestGetTellsWhatHasFired"), edits{"get-tells-ended-windows": without("m.ends <= now || ")}},
	{tests("shard", "TestWhatABatchBringsAboutIsToldOnce"), edits{
		"taken-event-fires-again": without("e.At == at.Now && "),
		"block-begins-again":      swap("<=", "<"),
	}},
	{tests("shard", "TestADeadLetterIsReplayed"), edits{"replay-not-audited": never}},
}
