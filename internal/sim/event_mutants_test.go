package sim

import "testing"

// eventMutants are the rules of thresholds and of the outbox: what fires, how often, and who must have heard of it.
var eventMutants = []judged{
	{mutant{"a threshold fires whenever it is crossed", "shard/counter_threshold.go",
		"m.units == units && m.starts == starts", "false && m.starts == starts"}, fires},
	{mutant{"a threshold fires only once, whatever the window", "shard/counter_threshold.go",
		"m.units == units && m.starts == starts && m.ends == ends &&", "m.units == units &&"}, fires},
	{mutant{"a threshold fires as long as it is exceeded", "shard/counter_threshold.go", "before < units && units <=", "(before < units || true) && units <="}, fires},
	{mutant{"a mark is for all limits", "shard/counter_threshold.go", " && string(m.limit) == name {", " {"}, fires},
	{mutant{"marks end early", "shard/counter_threshold.go", "\t\tcase m.ends <= now:\n", "\t\tcase m.ends <= now+60e6:\n"}, fires},
	{mutant{"a counter is forgotten with its marks", "shard/counter.go", "\t\tforgetAt = max(forgetAt, c.marks.until())\n", ""}, fires},
	{mutant{"what is spent above a hold crosses nothing", "shard/hold_settle.go", "\t\t\tch.setCounted(j, s, now)\n",
		"\t\t\tch.counter.set(j, l, s, now)\n"}, fires},
	{mutant{"a lifted limit has shares of its quota", "shard/counter_threshold.go", "l.Unlimited && t.Percent != 0 {", "false {"}, fires},
	{mutant{"a crossing leaves no event", "shard/eval_batch.go", "\tif c.crossed != nil {\n\t\tb.fire(c)\n", "\tif c.crossed != nil {\n\t\tc.crossed = nil\n"}, fires},
	{mutant{"an event leaves with its first sink", "shard/eval_outbox.go", "\tif len(e.Sinks) == 0 {\n\t\tpast := e", "\tif true {\n\t\tpast := e"}, outboxes},
	{mutant{"an acknowledgement is for any history", "shard/eval_outbox.go", "err == nil && e.Place() == p", "err == nil"}, outboxes},
	{mutant{"a full outbox grows", "shard/eval_outbox.go", "o.head.bytes > outboxMost && ", "false && "}, outboxes},
	{mutant{"a lost event is not counted", "shard/eval_outbox.go", "record.Value != nil {\n\t\to.head.lost++\n", "record.Value != nil {\n"}, outboxes},
	{mutant{"a replay loses the letter", "shard/eval_outbox.go", "\to.enqueue(&again)\n", ""}, outboxes},
	{mutant{"a dead letter has no reason", "shard/eval_outbox.go", "e.Why = o.head.died, sinks, why", "e.Why = o.head.died, sinks, \"\""}, outboxes},
	{mutant{"a replayed letter keeps its reason", "shard/eval_outbox.go", "\tagain.Why = \"\"\n", ""}, outboxes},
	{mutant{"two owners tell one spike", "shard/eval_outbox.go",
		"b.lookup(key); found && record.Value != nil {\n\t\treturn Result{Decision: d}", "b.lookup(key); found && record.Value == nil {\n\t\treturn Result{Decision: d}"}, outboxes},
	{mutant{"a late push takes a position back", "shard/eval_outbox.go", "case before.Version != p.Version:", "case before.Version > 1<<60:"}, outboxes},
	{mutant{"a forgotten key stays in events", "shard/eval_forget.go", "\t\to.drop(key, record)\n", ""}, outboxes},
	{mutant{"a threshold is written for nodes that cannot read it", "shard/eval_outbox.go", "case p.HasThresholds() && s.Level < LevelNotify:", "case false:"}, outboxes},
	{mutant{"the id of an event changes with the use", "shard/event.go", "[]uint64{e.Units, uint64(e.Start)", "[]uint64{e.Used, uint64(e.Start)"}, outboxes},
}

// pushMutants are the rules of pushes: what is sent again, what is not, and what is left to a person.
var pushMutants = []judged{
	{mutant{"a new owner begins anew", "internal/node/pusher.go", "if err == nil && kept.Version > 0 {", "if false {"},
		tests("internal/node", "TestANewOwnerGoesOnFromTheLog")},
	{mutant{"bills that nobody took are passed over", "internal/node/pusher.go", "err = p.judge(s, p.send", "_ = p.judge(s, p.send"}, pushes},
	{mutant{"Stripe is sent what it has forgotten", "internal/node/pusher_send.go", "case now-at.Tried > limit.Time(notify.GiveUpStripe.Microseconds()):", "case false:"}, pushes},
	{mutant{"a bill that Stripe refuses keeps the others", "internal/notify/post.go", "case s.Kind == Stripe && code == ", "case false && code == "}, pushes},
	{mutant{"a key without the prefix is a customer", "internal/node/pusher_send.go", "case !found || name == \"\":", "case !found && name == \"\":"}, pushes},
	{mutant{"a customer may have no name", "internal/node/pusher_send.go", "case !found || name == \"\":", "case !found:"}, pushes},
	{mutant{"a provider gets what a restore has cut", "internal/node/pusher_send.go", "case u.Recovered:", "case false:"}, pushes},
	{mutant{"money back is a bill", "internal/node/pusher_send.go", "case owed(u) < 0:", "case false:"}, pushes},
	{mutant{"Stripe gets what is too old", "internal/node/pusher_send.go", "case p.now().Sub(at) > stripeOldest:", "case false:"}, pushes},
	{mutant{"a refused event takes its batch along", "internal/node/pusher_cloudevents.go", "case len(events) == 1:", "case len(events) >= 1:"}, pushes},
	{mutant{"the other half of a refused batch is lost", "internal/node/pusher_cloudevents.go", "p.postCloudEvents(ctx, s, events[half:])", "p.postCloudEvents(ctx, s, nil)"}, pushes},
}

var (
	fires    = suite{"-run=^TestEveryDecisionIsTheTwins$", "./shard", "-seed=2", "-operations=400000"}
	outboxes = tests("shard", "TestAnEventWaitsForEachOfItsSinks|TestADeadLetterIsReplayed|TestAFullOutboxStopsNothing|"+
		"TestASpikeIsToldOnceInTenMinutes|TestAPushGoesOnlyForward|TestAForgottenKeyIsInNoEvent|TestNoThresholdBeforeItsLevel|"+
		"TestARestoreKeepsEventsAndIDs|TestGoldenBytesOfEvents|TestABrimfulShardLosesTheEventOnly")
)

var pushes = tests("internal/node", "TestBillsForStripeWaitForAPersonAfter20Hours|TestBillsThatStripeCannotBeSent|TestOpenMeterCountsEachBillOnce|"+
	"TestCloudEventsSayWhatABillComesTo")

func TestEventMutants(t *testing.T) { judgeMutants(t, eventMutants) }

func TestPushMutants(t *testing.T) { judgeMutants(t, pushMutants) }
