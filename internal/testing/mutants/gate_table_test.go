package mutants

var ofGate = []group{
	{tests("internal/gate", "TestHeadersCountOnlyFromATrustedProxy"), edits{
		"strangers-headers-believed":            without(" || !g.proxies.Trust(q.Peer)"),
		"strangers-question-is-root":            never,
		"either-proxy-believed":                 never,
		"no-method-is-get":                      without(`method == "" || `),
		"proxy-without-a-path-asks-for-root":    without(`q.Path != "" && `),
		"stranger-without-a-path-asks-for-root": without(`q.Path != "" && `),
	}},
	{tests("internal/gate", "TestAReportCountsOnlyFromATrustedProxy"), edits{
		"stranger-reports-a-request":    without(" || q.Reported"),
		"report-without-a-path-is-root": never,
	}},
	{tests("internal/gate", "TestTheFirstIdentityCountsAndABadOneIsRefused"), edits{
		"second-token-behind-a-comma": gone,
		"invented-api-key-counts":     without("!s.route.knowsKeys || "),
		"bad-token-skipped":           swap("unproven(err)", "errMissing"),
		"token-behind-a-tab":          swap("r <= ' ' || r > '~'", "r == ' '"),
		"token-behind-white-space":    gone,
	}},
	{tests("internal/gate", "TestWithoutAnIdentityTheGateSaysWhatCounts"), edits{
		"missing-field-hides-refusal": without(" && (err == nil || errors.Is(err, errMissing))"),
	}},
	{tests("internal/gate", "TestTheCostIsAtMostWhatTheGateSays"), edits{
		"stranger-names-the-cost": without(" || !g.proxies.Trust(q.Peer)"),
		"cost-without-bound":      without("units > c.Units || "),
	}},
	{tests("internal/gate", "TestOnlyATrustedProxyNamesTheID"), edits{
		"strangers-id-is-a-free-pass": without(" || !g.proxies.Trust(q.Peer)"),
	}},
	{tests("internal/gate", "TestARouteOpensOnlyWithoutSecurity"), edits{
		"security-policy-fails-open": without(" && !r.AlwaysCloses(policies)"),
	}},
	{tests("internal/gate", "TestASecondSpellingIsNotFree"), edits{
		"encoded-path-differs": swap("decode(segment)", "segment"),
	}},
	{tests("internal/gate", "TestALetterInAnotherCaseIsNotFree"), edits{
		"letter-of-another-case-differs": gone, "case-outside-of-ascii-differs": never}},
	{tests("internal/gate", "TestAPathOfSeveralReadingsCountsAsAll"), edits{
		"dots-leave-a-route":                  never,
		"encoded-slash-leaves-a-route":        never,
		"parameter-leaves-a-route":            never,
		"slash-in-a-parameter-leaves-a-route": swap("len(parts)-1", "0"),
		"first-reading-alone":                 without(".with(found)"),
		"reading-without-route-passes":        never,
		"api-key-of-another-reading": instead(
			"known := *other; known.knowsKeys = true; more, err = known.own(q, subject)"),
		"security-reading-fails-open": swap("&&", "||"),
	}},
	{tests("internal/gate", "TestAPathHasOneSpelling"), edits{
		"path-of-any-length":                  never,
		"host-ends-the-path":                  never,
		"path-without-slash-leaves-a-route":   never,
		"control-character-leaves-a-route":    never,
		"raw-byte-leaves-a-route":             never,
		"byte-that-is-no-text-leaves-a-route": without(" || r == '!'"),
	}},
	{tests("internal/gate", "TestNoSpellingOfAPageIsFree"), edits{
		"space-leaves-a-route": never,
		"host-leaves-a-route":  never,
	}},
	{tests("internal/edge/clientaddr", "TestTheClientIsTheRightmostAddressThatNoTrustedProxyHas"), edits{
		"leftmost-address-counts": instead("for i := 0; i < 1 && p.has(address); i++ {"),
		"strangers-forwarded-for-counts": swap("p.has(address)",
			`(i == len(forwarded)-1 && forwarded[i] != "" || p.has(address))`),
	}},
	{tests("internal/edge/jwks", "TestOnlyATokenOfTheIssuerForTheAudienceProves"), edits{
		"token-chooses-its-algorithm": swap("rules.Algorithms",
			`[]string{"RS256", "ES256", "HS256"}[:len(algorithms)]`),
		"token-never-ends": never,
	}},
	{tests("internal/edge/jwks", "TestWithoutAnyKeysNobodyCanTell"), edits{
		"unknown-key-opens-at-close": swap("!known", "!known || known"),
	}},
	{tests("internal/edge/jwks", "TestTheOldKeysStayWhileTheIssuerIsGone"), edits{
		"keys-lost-with-their-issuer": instead("s.keys = keys"),
	}},
	{tests("internal/edge/jwks", "TestANewKeyIsFetchedOnceAMinute"), edits{
		"each-key-name-fetched": swap("time.Since(s.tried) < unknownEvery", "false"),
	}},
}
