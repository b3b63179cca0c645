package sim

import "testing"

// privacyGuards end what is kept of a person, and nothing else.
var privacyGuards = []judged{
	{mutant{"a counter is forgotten under an open leg", "shard/eval_forget.go", "\t\tif h.remote {\n", "\t\tif false && h.remote {\n"},
		tests("shard", "TestAnOperationEndsBeforeItsKeyIsForgotten")},
	{mutant{"a leg gives a forgotten key what it had taken", "shard/op_settle.go", "\tl.dropForgotten(&s)\n", ""},
		tests("shard", "TestAnOperationEndsBeforeItsKeyIsForgotten")},
	{mutant{"a held operation is not ended", "shard/eval_forget.go", "\tcase u.state == OperationHeld:\n", "\tcase u.state == OperationHeld && f.key == \"\":\n"},
		tests("shard", "TestAHeldOperationExpiresWhenItsKeyIsForgotten")},
	{mutant{"the audit log keeps the key", "shard/eval_forget.go", "\t\ta.Key = ForgottenKey\n", "\t\ta.Key = f.key\n"},
		tests("shard", "TestNothingOfAForgottenKeyIsKept")},
	{mutant{"a key's longer neighbor is forgotten with it", "shard/eval_forget.go", " || string(in.rest) != f.key {", " || !bytes.HasSuffix(in.rest, key) {"},
		tests("shard", "TestNothingOfAForgottenKeyIsKept")},
	{mutant{"a late copy forgets what was counted since", "shard/eval_ops.go", "ReadAudit, AskHome, ReadTally:\n\t\treturn false", "ReadAudit, AskHome, ReadTally, Forget:\n\t\treturn false"},
		tests("shard", "TestALateCopyOfAForgetEndsNothing")},
	{mutant{"a Forget misses what its batch has counted", "shard/eval.go", "\t\t\trequests[decided].Op == Forget || requests[decided-1].Op == Forget) {", "\t\t\tfalse) {"},
		tests("shard", "TestAForgetIsAloneInItsBatch")},
	{mutant{"whoever adjusts one policy's keys forgets them under all", "api/service_forget.go", "[]auth.Op{auth.Adjust, auth.Override}", "[]auth.Op{auth.Adjust}"},
		tests("api", "TestAForgetNeedsAGrantUnderEveryPolicy")},
	{mutant{"a Forget does not wait for the end of operations", "api/service_forget.go", "if open += others; open == 0 {", "if open += others; open == 0 || true {"},
		tests("api", "TestForgetAsksEveryShardUntilNothingIsLeft")},
	{mutant{"a forgotten key stays among the denials", "cluster/routing/denials_pass.go", "\t\t\t\td.slots[n].CompareAndSwap(kept, nil)\n", ""},
		tests("cluster/routing", "TestADenialOfAForgottenKeyIsDropped")},
}

// TestPrivacyMutants removes each of them.
func TestPrivacyMutants(t *testing.T) { judgeMutants(t, privacyGuards) }
