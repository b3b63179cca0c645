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
	{mutant{"one batch adds keys past the cap", "shard/eval_batch.go", "if b.shares != nil && !c.known {", "if b.shares != nil && !c.known && false {"},
		tests("shard", "TestAPolicyHasNoMoreKeysThanItsCap")},
	{mutant{"ids on one key fill a shard", "shard/eval.go", "if answer.Err = e.crowdedBy(r); answer.Err != nil {", "if e.crowdedBy(r) != nil && r.ID == \"\" {"},
		tests("shard", "TestWhoeverHasMostOfAShardLeavesTheRestToOthers")},
	{mutant{"who is alone may not fill a shard", "shard/store_share.go", "return one.Keys < all.Keys && 2*one.Bytes", "return 2*one.Bytes"},
		tests("shard", "TestWhoeverHasMostOfAShardLeavesTheRestToOthers")},
	{mutant{"labels of inline limits escape their share", "shard/store_share.go", "key[begin+1] == InlinePolicy[0] &&", "key[begin+1] == 0 &&"},
		tests("shard", "TestWhoeverHasMostOfAShardLeavesTheRestToOthers")},
	{mutant{"what is swept counts forever", "shard/store_table.go", "\t\tt.shares.remove(key, len(key)+len(r.Value))\n\t\tt.records--\n", "\t\tt.records--\n"},
		tests("shard", "TestEveryDecisionIsTheTwins")},
	{mutant{"a snapshot forgets the shares", "shard/store_snapshot.go", "\tf.shares.add(string(key), len(key)+len(r.Value))\n", ""},
		tests("shard", "TestSharesComeBackFromASnapshot")},
	{mutant{"what is not installed counts toward no cap", "actor/overlay.go", "\t\t\ts.AddNew(", "\t\t\tnew(shard.Shares).AddNew("},
		tests("actor", "TestOverlayCountsTowardCaps")},
	{mutant{"a cap is applied that older nodes cannot read", "policy/build.go", "if s.byName[name].MaxKeys != 0 {", "if s.byName[name].MaxKeys != 0 && false {"},
		tests("policy", "TestWhatOlderNodesCannotReadIsFound")},
}

// TestPrivacyMutants removes each of them.
func TestPrivacyMutants(t *testing.T) { judgeMutants(t, privacyGuards) }
