package sim

import "testing"

// trustGuards keep out who has not proven who they are, and keep in what they may do.
var trustGuards = []judged{
	{mutant{"a token is known by its id", "internal/auth/set.go", "c == nil || subtle.ConstantTimeCompare(hash[:], c.hash[:]) != 1 ||", "c == nil || hash == (Hash{}) ||"},
		tests("internal/auth", "TestWhoIsWho")},
	{mutant{"an expired token is accepted", "internal/auth/set.go", " || c.ended(now) {\n\t\treturn nil\n\t}\n\treturn c\n}\n\n// ofRole", " {\n\t\treturn nil\n\t}\n\treturn c\n}\n\n// ofRole"},
		tests("internal/auth", "TestWhoIsWho")},
	{mutant{"a wrong token is passed over for a role", "internal/auth/guard.go", "\tif c == nil {\n\t\treturn nil, errWrong\n\t}\n\tc.use",
		"\tif c == nil && p.Role != \"\" {\n\t\tc = set.ofRole(p.Role, now)\n\t}\n\tif c == nil {\n\t\treturn nil, errWrong\n\t}\n\tc.use"},
		tests("internal/auth", "TestWhoIsWho")},
	{mutant{"a public port serves before the first token", "internal/auth/guard.go", "case !set.Required && p.Port == Public:", "case false:"},
		tests("internal/auth", "TestBeforeTheFirstToken")},
	{mutant{"the operator's trust lifts tokens that exist", "internal/auth/guard.go", "case !set.Required && p.Port == Trusted:", "case p.Port == Trusted:"},
		tests("internal/auth", "TestWhoIsWho")},
	{mutant{"a guest lifts a limit by a tier's name", "internal/auth/guard.go", "!set.Required && p.Port == Trusted:\n\t\treturn guest, nil", "!set.Required && p.Port == Trusted:\n\t\treturn anybody, nil"},
		tests("internal/auth", "TestBeforeTheFirstToken")},
	{mutant{"all tiers are granted with the first", "internal/auth/grant.go", "slices.Contains(g.tiers, \"*\") && !on.Unlimited", "slices.Contains(g.tiers, \"*\")"},
		tests("internal/auth", "TestGrants")},
	{mutant{"whoever makes tokens makes stronger ones", "api/service_token.go", "if !who.MayGrant(&r.Grants[i]) {", "if false {"},
		tests("cmd/stint", "TestScripts")},
	{mutant{"old tokens are good for everything", "internal/auth/guard.go", "!op.survivesSilence() && g.now()", "false && g.now()"},
		tests("internal/auth", "TestWhatANodeDoesByOldTokens")},
	{mutant{"an open connection keeps a revoked token", "internal/auth/guard.go", "\tpresent := set.still(c, now)\n", "\tpresent := c\n"},
		tests("internal/auth", "TestAnOpenConnectionLosesWhatItsTokenLoses")},
	{mutant{"grpc-go's calls of one message are not asked", "api/call_grpc.go", "safe.Streams[i].Handler = a.registry.gate.keepOutGRPC(port, a.registry.admission, procedure,\n\t\t\t\trecovered(logger, procedure, safe.Streams[i].Handler))",
		"safe.Streams[i].Handler = recovered(logger, procedure, safe.Streams[i].Handler)"},
		tests("api", "TestWithoutATokenGRPCIsRefused")},
	{mutant{"a path is asked by its procedure alone", "api/call_guard.go", "\t\tif g.isOpen(r.URL.Path) {", "\t\tif _, known := g.ops[r.URL.Path]; !known || g.isOpen(r.URL.Path) {"},
		tests("api", "TestWithoutATokenNothingIsReadOrDone")},
	{mutant{"a batch is asked as a whole", "api/service_limit.go", "\t\terr := granted(who, policies, auth.Check, check.GetNamespace(), check.GetEntries())\n", "\t\terr := error(nil)\n"},
		tests("api", "TestATokenMayDoWhatItSaysAndNothingElse")},
	{mutant{"a sealed id is a grant", "api/service_limit.go", "\t\terr = grantedRequest(callerIn(ctx), auth.Settle, &r)\n", ""},
		tests("api", "TestASettlementNeedsAGrantOfItsKeys")},
	{mutant{"a stream is asked once", "api/call_stream.go", "refusal != nil {\n\t\t\terr = refusal", "refusal != nil && false {\n\t\t\terr = refusal"},
		tests("api", "TestARevokedTokenEndsItsStreams")},
	{mutant{"a Redis connection is asked once", "api/redis/conn.go", "\t\tc.identify()\n\t\tc.translate()", "\t\tc.translate()"},
		tests("api/redis", "TestARevokedTokenEndsItsConnections")},
	{mutant{"one key of a command is asked for all", "api/redis/verb.go", "\tif !c.granted(v, arg) {", "\tif len(c.round.commands) == 0 && c.key == \"\" && !c.granted(v, arg) {"},
		tests("api/redis", "TestATokenOpensTheRedisPort")},
	{mutant{"a stranger may send much", "api/redis/conn.go", "if c.who.caller == nil && size > strangeHeld {", "if false {"},
		tests("api/redis", "TestAStrangerMaySendLittle")},
	{mutant{"a node that starts goes by what it kept", "internal/node/tokens.go", "if !t.heard && !(t.kept && t.now().Sub(t.began) >= tokensGrace) {", "if !t.heard && !t.kept {"},
		tests("internal/node", "TestTokensOnEveryNode")},
	{mutant{"a node that joins lets everybody in", "internal/node/tokens.go", "t.guard.Learn(&auth.Set{Known: alone, Outside: !alone})", "t.guard.Learn(&auth.Set{Known: true})"},
		tests("internal/node", "TestTokensOnEveryNode")},
	{mutant{"tokens are made while a node would not ask for them", "internal/node/token_admin.go", "if a.view.level() < shard.LevelTrust {\n\t\treturn \"\"", "if false {\n\t\treturn \"\""},
		tests("internal/node", "TestNoTokenIsMadeBeforeTheUpgradeIsFinished")},
}

// TestTrustMutants removes each of them.
func TestTrustMutants(t *testing.T) { judgeMutants(t, trustGuards) }
