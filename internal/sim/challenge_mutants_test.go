package sim

import "testing"

// challengeMutants are the rules of soft limits, and of the canary.
var challengeMutants = []judged{
	{mutant{"a soft limit hides a hard one", "shard/challenge.go", "s.Blocked || denies && !s.Soft", "s.Blocked"}, challenges},
	{mutant{"a soft limit hides a block", "shard/challenge.go", "s.Blocked || denies && !s.Soft", "denies && !s.Soft"}, challenges},
	{mutant{"a challenge counts as a denial", "shard/eval_denied.go", " && !d.Challenged() {", " {"}, challenges},
	{mutant{"a limit is soft for nodes that do not know it", "shard/eval.go", " && e.at.Level >= LevelNotify", ""}, challenges},
	{mutant{"a shard does not tell another that it is soft", "cluster/hop/frame_answer.go", " || s.Soft\n", "\n"},
		tests("cluster/hop", "TestFrameGoldenBytes")},
	{mutant{"a set with soft limits is applied too early", "policy/meter.go", "\treturn s.firstSoft()\n", "\treturn \"\"\n"},
		tests("policy", "TestASoftLimitIsNewerThanBill")},
	{mutant{"a request brings a soft limit along", "api/request.go", "if e.Limits[j].OnExceeded != policy.ExceededDeny {", "if false {"},
		tests("api", "TestALimitOfARequestIsNotSoft")},
	{mutant{"a gate lets a challenge look like a denial", "api/gate_answer.go", "if d.GetOutcome() == stintv1.Outcome_OUTCOME_CHALLENGE {", "if false {"},
		tests("api", "TestAGateAsksForAChallenge")},
	{mutant{"the canary does not miss a count", "internal/node/canary.go", "case used < b.acked:", "case false:"}, canaries},
	{mutant{"the canary takes two for one", "internal/node/canary.go", "case used > b.acked+b.unknown:", "case false:"}, canaries},
	{mutant{"the canary cries for what it does not know", "internal/node/canary.go", "\t\t\tb.unknown++\n", ""}, canaries},
	{mutant{"the canary is seen among the keys", "actor/top.go", " || r.Namespace == shard.CanaryNamespace", ""}, canaries},
}

var (
	challenges = tests("shard", "TestTranscripts|TestADenialIsAChallengeIfOnlySoftLimitsDeny|TestALimitIsSoftFromItsLevelOn")
	canaries   = tests("internal/node", "TestTheCanary.*")
)

// TestChallengeMutants removes each of them.
func TestChallengeMutants(t *testing.T) { judgeMutants(t, challengeMutants) }
