package mutants

var ofOthers = []group{
	{tests("client", "TestAllowAnswersByTheLimitWithLeastLeft"), edits{"allow-is-not-sent-again": gone}},
	{tests("client", "TestAChangeByHandEndsTheLease"), edits{"client-lease-survives-a-change": gone}},
	{tests("client", "TestOnlyAPlainCheckIsAnsweredInMemory"), edits{
		"client-leases-an-id":            without(` || r.IdempotencyId != ""`),
		"closed-client-keeps-its-leases": gone,
	}},
	{tests("client", "TestACheckThatCannotBeWrittenFailsAlone|TestACallThatCannotBeWrittenIsNotCounted"), edits{
		"unwritable-check-fails-its-call": never,
		"unwritable-call-may-be-counted":  swap("(proto.Message), err)", "(proto.Message), nil)"),
	}},
	{tests("client", "TestARedirectIsNotFollowed"), edits{
		"token-follows-a-redirect": without(", CheckRedirect: noRedirect"),
	}},
	{tests("internal/observe/decisions", "TestALineAfterACutOneIsWhole"), edits{"line-continues-a-cut-one": always}},
	{tests("client", "TestANodeThatHangsIsLeft"), edits{
		"client-waits-for-a-silent-node": without("SendPingTimeout: pingAfter, "),
		"lost-node-is-asked-again":       never,
	}},
	{tests("client", "TestShortCallsLeaveANodeThatHangs"), edits{"short-calls-meet-a-silent-node": never}},
	{tests("internal/edge/connlimit", "TestStrangersPushOutEachOther"), edits{
		"proven-client-pushed-out": never,
		"strangers-fill-a-port":    always,
	}},
	{tests("internal/edge/auth", "TestWhoIsWho"), edits{
		"token-known-by-its-id":          instead("if c == nil || hash == (Hash{}) || c.ended(now) {"),
		"expired-token-accepted":         without(" || c.ended(now)"),
		"wrong-token-falls-back-to-role": before(`if c == nil && p.Role != "" { c = set.ofRole(p.Role, now) }`),
		"trusted-port-ignores-tokens":    without("!set.Required && "),
	}},
	{tests("internal/edge/auth", "TestBeforeTheFirstToken"), edits{
		"public-before-the-first-token": never,
		"guest-names-a-tier":            swap("guest", "anybody"),
	}},
	{tests("internal/edge/auth", "TestGrants"), edits{"star-grants-unlimited": without(" && !on.Unlimited")}},
	{tests("internal/edge/auth", "TestWhatANodeDoesByOldTokens"), edits{
		"old-tokens-do-everything": swap("!op.survivesSilence()", "false"),
	}},
	{tests("internal/edge/auth", "TestAnOpenConnectionLosesWhatItsTokenLoses"), edits{
		"connection-keeps-a-revoked-token": instead("present := c"),
	}},
	{tests("cmd/stint", "TestScripts"), edits{"token-makes-a-stronger-one": never,
		"token-makes-one-without-end": never}},
	{tests("cmd/stint", "TestACertificateForClientsNamesItsHosts"), edits{
		"server-certificate-gives-a-role": swap("ExtKeyUsageServerAuth",
			"ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth"),
	}},
	{tests("cmd/stint", "TestABackupThatLacksASlotIsNone"), edits{
		"backup-lacks-a-moved-slot":    never,
		"backup-lacks-a-founded-shard": never,
	}},
	{tests("internal/offline/backup", "TestAPartIsNoDamagedBackup"), edits{
		"part-called-damaged":   never,
		"backup-called-damaged": never,
	}},
	{tests("cmd/stint", "TestAWrongClockDeletesNoBackups"), edits{"wrong-clock-deletes-backups": always}},
	{tests("cmd/stint", "TestAWaitOfCenturiesIsToldAsOne"), edits{
		"endless-wait-is-over":  never,
		"endless-block-is-over": never,
	}},
	{tests("client/stintlimiter", "TestNoRequestIsToldToComeTooEarly"), edits{
		"endless-block-ended-long-ago": without(" || int64(wait) > math.MaxInt64-second-now"),
	}},
	{tests("policy", "TestSchemaTakesRareForms"), edits{"editor-refuses-an-empty-text": never}},
	{tests("policy", "TestAWrongGateIsRefusedAtItsField"), edits{
		"empty-text-is-a-network": swap("!d.failed[v.path]", `text != ""`),
	}},
	{tests("cmd/stint", "TestAFileIsNotWrittenInThePlaceOfADevice"), edits{"file-in-the-place-of-a-device": never}},
	{tests("cmd/stint", "TestShardsEndsWhenAnotherNumberIsAskedFor"), edits{"replaced-number-awaited": never}},
	{tests("cmd/stint", "TestAClusterKeyIsMadeOnce"), edits{"cluster-key-replaced": swap("Link", "Rename")}},
	{tests("internal/edge/clienttls", "TestOldVersionsAreRefused"), edits{
		"old-tls-spoken": swap("VersionTLS12", "VersionTLS10"),
	}},
	{tests("internal/edge/clienttls", "TestARoleIsOneURIOfTheRightAuthority"), edits{
		"any-authority-issues-roles":  swap("VerifyClientCertIfGiven", "RequestClientCert"),
		"any-certificate-is-a-client": instead("_, _ = roleOf(state.PeerCertificates[0]); return nil"),
		"first-uri-counts":            swap("!= 1", "== 0"),
		"role-of-any-name":            without(" || !roleName.MatchString(name)"),
	}},
	{tests("internal/edge/clienttls", "TestWhoSpeaksPlaintextIsToldSo"), edits{
		"plaintext-ends-wordless": instead("if b[0] >= 0 {"),
	}},
	{tests("internal/edge/certfile", "TestTheLastGoodFilesStayInForce"), edits{
		"expired-certificate-taken": never,
		"bad-files-taken-in-part":   before("w.content.Store(content)"),
	}},
	{tests("internal/offline/backup", "TestEveryFlippedByteIsDetected"), edits{"backup-sum-ignored": never}},
	{tests("policy", "TestKeysOfTemplates"), edits{
		"client-writes-a-tag":  swap(`"%=|{}/"`, `"%=|/"`),
		"client-writes-a-mark": swap(`"%=|{}/"`, `"%{}/"`),
	}},
	{tests("policy", "TestLongValuesOfTemplates"), edits{
		"long-value-cuts-the-rest": swap("from, t.room", "0*from, keyBytesMax"),
	}},
	{tests("policy", "TestKeysOfPoliciesWithParents"), edits{
		"key-escapes-its-pool": swap(`known && p.Parent != ""`, "false"),
	}},
	{tests("internal/edge/keyhash", "TestPartsAndTagsSurvive"), edits{
		"parent-lost-in-the-hash": swap(":end", ":len(key)"),
		"tag-lost-in-the-hash":    swap("tagFrom:tagTo", "tagFrom-1:end"),
	}},
	{tests("internal/observe/top", "TestRepeatedDenialsAreInTheBracket|TestAKeyThatItsOwnerLeftOutIsInTheBracket"),
		edits{
			"unlisted-keys-have-nothing": swap("s.Floor, s.Floor", "0, 0"),
			"cut-list-has-no-floor":      swap("r.Count", "0*r.Count"),
			"shared-list-lacks-policies": gone,
		}},
}
