package mutants

var ofAPI = []group{
	{tests("api", "TestWithoutATokenGRPCIsRefused"), edits{
		"grpc-go-not-asked": instead(
			"safe.Streams[i].Handler = recovered(logger, procedure, safe.Streams[i].Handler)"),
	}},
	{tests("api", "TestWithoutATokenNothingIsReadOrDone"), edits{
		"path-asked-by-procedure": swap("g.isOpen(", "_, known := g.ops[r.URL.Path]; !known || g.isOpen("),
	}},
	{tests("api", "TestATokenMayDoWhatItSaysAndNothingElse"), edits{
		"batch-asked-as-a-whole": instead("err := error(nil)"),
	}},
	{tests("node", "TestAThiefOfAnEdgesToken"), edits{
		"edge-writes-documents": without("r.Op != shard.Fetch || "),
		"edge-asks-as-a-node":   never,
		"edge-asks-for-any-key": never,
		"edge-gives-any-name":   never,
		"edge-gives-any-label":  never,

		"edge-brings-limits-as-a-tally": swap("r.Op != shard.Tally", "r.Tally == nil"),
		"secrets-for-edges":             without("name != placement.SecretsDocument && "),
	}},
	{tests("node", "TestTokensAtAnEdge"), edits{
		"edge-outlives-its-token":     instead("caller, refusal := e.caller, (*auth.Refusal)(nil)"),
		"refused-edge-goes-on-asking": instead("return err"),
	}},
	{tests("node", "TestAChangeThroughAnEdgeEndsItsLeases"), edits{"edge-lease-survives-a-change": never}},
	{tests("node", "TestAnEdgeAnswersAsANodeDoes"), edits{"client-passes-the-edge": instead("_ = s")}},
	{tests("api", "TestASettlementNeedsAGrantOfItsKeys"), edits{"sealed-id-is-a-grant": gone}},
	{tests("api", "TestASettlementNeedsNoGrantOfParents"), edits{
		"settlement-asks-for-parents": without(" && !isParent(policies, &r.Entries[i], r.Entries[:i])"),
	}},
	{tests("api", "TestARevokedTokenEndsItsStreams"), edits{"stream-asked-once": never}},
	{tests("api", "TestARevokedTokenEndsItsBackup"), edits{"backup-outlives-its-token": never}},
	{tests("api", "TestARevokedTokenEndsACallWhoseMessageIsLate"), edits{"late-message-outlives-its-token": never}},
	{tests("api", "TestWhatHasFiredOnAHashedKey"), edits{"fired-under-a-hash": never}},
	{tests("api", "TestHeadersOfAKeyWithAnOverride"), edits{"headers-of-another-tier": never,
		"envoy-shows-another-tier": swap("ruleShown(of.policies, of.r, of.d, s)", "decisions.RuleOf(of.policies, of.r, s)"),
	}},
	{tests("api", "TestAnIDIsRefusedByWhatIsKnownOfItsSecret"), edits{
		"unknown-secret-is-wrong":       swap("ErrHandleNewer", "ErrHandle"),
		"unasked-cluster-denies-secret": swap("err", "shard.ErrHandle"),
	}},
	{tests("api", "TestALeaseNeedsItsOwnGrant"), edits{"lease-by-a-grant-of-checks": swap("auth.Lease", "auth.Check")}},
	{tests("api", "TestAForgetNeedsAGrantUnderEveryPolicy"), edits{
		"forget-by-one-grant": without(", auth.Override"),
	}},
	{tests("api", "TestForgetAsksEveryShardUntilNothingIsLeft"), edits{"forget-does-not-wait": always}},
	{tests("api", "TestForgetMeetsEverySlot"), edits{"key-of-a-moving-slot-stays": without(" && f.met == slot.All()")}},
	{tests("api", "TestListKeysMissesNoSlot"),
		edits{"keys-of-a-moved-slot-left-out": swap("at.met != slot.All()", "false")}},
	{tests("api", "TestListUsageMissesNoSlot"), edits{
		"bills-of-a-moved-slot-left-out": never,
		"moved-key-has-no-bill":          never,
	}},
	{tests("api", "TestATokenEndsWithAllThatItHasMade"), edits{"children-stay": always}},
	{tests("api", "TestATokenThatHasEndedMakesNone"), edits{"ended-token-makes-one": always}},
	{tests("api", "TestATokenEndsWithThoseThatItHasRotated"), edits{"rotated-token-stays": gone}},
	{tests("api", "TestATokenThatHasEndedLearnsNoSecret"), edits{"ended-token-learns-a-secret": always}},
	{tests("api", "TestOneTokenLeavesStreamsToOthers"), edits{"one-token-watches-alone": never}},
	{tests("api", "TestACorrectionMakesNoCustomerUnasked"), edits{"correction-bills-a-stranger": never}},
	{tests("api", "TestEveryProcedureHashesKeys"), edits{
		"api-passes-plain-keys":    instead("_ = hash"),
		"decider-without-key-hash": swap("c.Decider", "_"),
	}},
	{tests("api", "TestAStaleReadOfAHashedKey"), edits{"stale-read-without-key-hash": swap("c.Stale =", "_ =")}},
	{tests("api", "TestWithoutTheSecretOfKeys"), edits{"plain-key-without-the-secret": swap("err", "nil")}},
	{tests("api", "TestSettlementsOfHashedKeys"), edits{
		"id-forgets-the-key-form": swap("&t.Hashed", "new(bool)"),
	}},
	{tests("api", "TestOddValuesOfEnvoy"), edits{
		"client-writes-a-parent": swap(`"%=|{}/"`, `"%=|{}"`),
		"client-omits-a-parent":  never,
		"huge-cost-is-an-error":  instead("hits := envoyHits(m, d)"),
	}},
	{tests("api", "TestGatesAndEnvoyAreOneEventEach"),
		edits{"refused-key-told-plain": instead("stored[i].Key = entries[i].Key")}},
	{tests("api", "TestBytesThatAreNoText"), edits{"not-text-passes-envoy": swap("err != nil", "false")}},
	{tests("api", "TestADenialByEnvoysRulesStands"), edits{
		"failed-report-lifts-denial": without(" && allowed"),
		"unknown-report-key-fails":   without("result.Err.Code != shard.KeyNotFound && "),
	}},
	{tests("api", "TestOverridesOfOneDescriptor"), edits{
		"descriptor-limits-merge": without(`"|limit="+name+`),
		"first-quota-counts":      instead("before.Limits[i].Quota = before.Limits[i].Quota"),
	}},
	{tests("api", "TestWhatEnvoyIsAnswered"), edits{
		"unknown-key-passes-envoy": instead("case failure != nil && false:"),
	}},
	{tests("api", "TestEnvoyRulesAreNewerThanAShard"), edits{
		"unknown-policy-is-an-error": swap("awaitsAdoption(ctx, err)", "false"),
	}},
	{tests("api", "TestLooksReportsAndShadowsOfEnvoy"), edits{
		"late-look-lets-others-count": swap("allowed =", "allowed = allowed ||"),
	}},
	{tests("api", "TestEnvoyNeedsAToken"), edits{
		"check-gives-back":    never,
		"check-brings-limits": never,
	}},
	{tests("api", "TestEnvoyPassesNoKeysThatCannotBeDecidedTogether"), edits{
		"undecidable-request-passes-envoy": instead("case failure != nil && false:"),
	}},
	{tests("api", "TestEnvoyPassesNoKeyWithoutRoom"), edits{
		"full-shard-passes-envoy": instead("case failure != nil && false:"),
	}},
	{tests("api", "TestAGateFailsAsItsRouteSays"), edits{
		"closed-fails-open": without("open && "),
		"full-shard-opens":  never,
	}},
	{tests("api", "TestAGateAsksForTheTokenOfTheProxy"), edits{
		"unauthorized-proxy-opens": swap("a.mayOpen(err)",
			"(a.mayOpen(err) || a.codeOf(err) == connect.CodePermissionDenied)"),
		"visitors-token-opens": swap(`gateToken(r.Header["Stint-Token"])`, "token"),
	}},
	{tests("api", "TestARefusedProxyNeverPassesItsVisitor"), edits{
		"visitor-passes-as-grpc": swap("gates.Asked(r)", "false"),
	}},
	{tests("api", "TestAGateWaitsForTheShardToAdoptItsPolicies"), edits{
		"gate-outruns-its-policies": swap("!awaitsAdoption(ctx, err)", "true"),
	}},
	{tests("api", "TestAGateHasItsOwnTime"), edits{"gate-waits-like-a-call": swap("patience", "1000*patience")}},
	{tests("api", "TestAGateAnswersWhoSendsNoMore"), edits{
		"gone-visitor-undecided": instead("return connect.CodeCanceled.String()"),
		"gone-visitor-passes":    swap("false", "route.Open()"),
	}},
	{tests("api", "TestWhatAProxyReportsToAGate"), edits{
		"unreadable-message-is-an-error": instead("if err := c.problem(); err != nil { return nil, err }; " +
			"if err := c.problem(); err != nil {"),
		"proxys-visitor-names-itself": gone,
	}},
	{tests("api", "TestBothDoorsOfAGateAgree"), edits{
		"full-node-is-an-error": swap("s.check", "func(ctx context.Context, c *call[authv3.CheckRequest, "+
			"*authv3.CheckRequest]) (*authv3.CheckResponse, error) { if err := enter(ctx, &c.message); "+
			"err != nil { return nil, err }; return s.check(ctx, c) }"),
	}},
	{tests("api", "TestALimitOfARequestIsNotSoft"), edits{"request-brings-soft-limit": never}},
	{tests("api/gates", "TestAGateAsksForAChallenge"), edits{"challenge-looks-like-denial": never}},
	{tests("api", "TestWhatHappensToKeysIsToldToThoseWhoMaySeeIt"), edits{
		"changes-shown-under-hashes": swap("e.Kind == decisions.Change", "false"),
	}},
	{tests("api/redis", "TestARevokedTokenEndsItsConnections"), edits{"redis-connection-asked-once": gone}},
	{tests("api/redis", "TestNoConnectionRestsTooSoon"), edits{
		"stranger-rests":           never,
		"loop-waits-for-the-table": without(" && c.server.queues.placed.Load()"),
	}},
	{tests("api/redis", "TestALoopWaitsForNoRound"), edits{"loop-waits-for-a-round": never}},
	{tests("api/redis", "TestALoopWaitsForNoBytes"), edits{"loop-believes-every-event": never}},
	{tests("api/redis", "TestATokenIsNotReplacedByARole"), edits{
		"redis-token-falls-back-to-role": swap("!c.shown", "true")}},
	{tests("api/redis", "TestATokenOpensTheRedisPort"), edits{
		"one-key-asked-for-all": swap("!c.granted", `len(c.round.commands) == 0 && c.key.sent == "" && !c.granted`),
	}},
	{tests("api/redis", "TestTranscripts"), edits{
		"every-database-is-one":              never,
		"hit-renews-the-window":              gone,
		"traefik-takes-a-denial-for-a-delay": gone,
		"transaction-done-in-part":           swap("|| m.sent != 2", ""),
		"transaction-of-two-keys":            swap("bytes.Equal(args[1], m.args[1])", "true"),
	}},
	{tests("api/redis", "TestAScriptNeedsTheGrantsOfItsCommand"), edits{
		"script-heeds-no-silence":      always,
		"transaction-heeds-no-silence": always,
	}},
	{tests("api/redis", "TestAGrantOfAPolicyCountsNothingElse"), edits{"script-needs-no-grant-of-its-policy": gone}},
	{tests("api/redis", "TestAStrangerMaySendLittle"), edits{"stranger-sends-much": never}},
	{tests("api/redis", "TestAHandshakeThatIsNotFinishedEndsAfterFiveSeconds"), edits{
		"handshake-lasts-forever": instead("ctx, cancel := context.WithCancel(context.Background())"),
	}},
	{tests("api/redis", "TestAStopWaitsForNoHandshake"), edits{
		"stop-waits-for-handshakes": swap("secure {", "secure && nc == nil {"),
	}},
	{tests("api/redis", "TestEveryCommandHashesKeys"), edits{
		"redis-passes-its-key": swap("key, by", "sent + key[:0], by"),
	}},
	{tests("api/redis", "TestAConnectionHearsThatKeysAreHashed"), edits{
		"connection-keeps-the-key-form": without(" && by == c.key.by"),
	}},
}
