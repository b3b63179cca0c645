package sim

import "testing"

// billMutants are the rules of meters: what is billed, where it comes back to, and what a reader sees.
var billMutants = []judged{
	{mutant{"what is admitted is not billed", "shard/eval.go", "\t\tch.counter.bill(ch.policy.Meter, ch.units, e.at.Now)\n", ""}, bills},
	{mutant{"what is asked for is billed, not what is granted", "shard/eval.go", "e.charges[len(e.charges)-1].units = cost",
		"e.charges[len(e.charges)-1].units = entry.Cost"}, bills},
	{mutant{"what is spent above a hold is not billed", "shard/hold_settle.go", "\tch.counter.bill(ch.policy.Meter, units, now)\n", ""}, bills},
	{mutant{"a settlement gives nothing back", "shard/hold_settle.go", "\t\tc.meters.giveBack(c, h.cost-actual, h.taken, now)\n", ""}, bills},
	{mutant{"a hold that expires gives nothing back", "shard/hold_expiry.go", "\t\t\tc.meters.giveBack(c, h.cost, h.taken, h.expires)\n", ""}, bills},
	{mutant{"a hold comes back when somebody looks", "shard/hold_expiry.go", "c.meters.giveBack(c, h.cost, h.taken, h.expires)",
		"c.meters.giveBack(c, h.cost, h.taken, now)"}, bills},
	{mutant{"a final period changes", "shard/counter_meter.go", " && at < p.final() {", " {"}, bills},
	{mutant{"a closed period changes no more", "shard/counter_meter.go", " && at < p.final() {", " && at < p.end {"}, bills},
	{mutant{"units come back to any period", "shard/counter_meter.go", "p.start <= taken && taken < p.end && ", ""}, bills},
	{mutant{"a period takes what comes after its end", "shard/counter_meter.go", "at >= m.periods[n-1].end {", "false {"}, bills},
	{mutant{"periods overlap", "shard/counter_meter.go", "\t\tp.start = max(p.start, last.end)\n", ""}, bills},
	{mutant{"what was admitted without the meter comes back to it", "shard/counter_meter.go", "taken >= m.since && ", ""}, meters},
	{mutant{"what was admitted during a pause comes back", "shard/counter_meter.go",
		"p.from <= taken && taken < p.until", "false"}, meters},
	{mutant{"a bill is dropped with its limits", "shard/counter.go", "\t\tforgetAt = max(forgetAt, c.meters.until(c))\n", ""}, meters},
	{mutant{"a credit is forgotten before its period", "shard/counter_meter.go", "if last >= m.newest().end && last != limit.Forever {", "if false {"},
		tests("shard", "TestACreditIsKeptAsLongAsItsPeriod")},
	{mutant{"a reset ends a bill", "shard/counter.go", "\tif name == \"\" {\n\t\tc.extras.clearLadder()",
		"\tif c.meters = nil; name == \"\" {\n\t\tc.extras.clearLadder()"}, bills},
	{mutant{"a restore does not say what it lost", "shard/restore_state.go", "\tk.meters.recover(c.backup.time, c.At)\n", ""}, meters},
	{mutant{"a new period after a restore does not say so", "shard/counter_meter.go", "c.mark != nil && p.start < c.mark.full.At", "false"}, meters},
	{mutant{"a meter is written for nodes that cannot read it", "shard/eval_outbox.go", "case p.Meter != nil && s.Level < LevelBill:", "case false:"}, meters},
	{mutant{"a brimful shard begins periods", "shard/store_full.go",
		"if d.Allowed && !ch.looks && ch.counter.meters.grow(ch.policy.Meter, e.at.Now) {", "if false {"}, meters},
	{mutant{"a reader leaves holds open that have expired", "shard/eval_usage.go", "\tc.expire(u.page.Through)\n", ""}, bills},
	{mutant{"a scan leaves out what is not installed", "shard/store_scan.go", "at >= from && r.Value != nil {", "false {"}, bills},
	{mutant{"a scan goes on in the wrong segment", "shard/store_scan.go", "n >= 1<<t.level || n+1<<t.level < t.segments.length {", "false {"}, meters},
	{mutant{"a correction is units", "shard/eval_correct.go", "\tp.corrections, p.revised = sum, e.at.Now\n", "\tp.units, p.revised = p.units+uint64(r.Adjustment.Amount), e.at.Now\n"}, bills},
	{mutant{"a copy of a correction corrects again", "shard/eval_ops.go", "case ReadEventPage, ChangeEvents, NoteSpike: //", "case ReadEventPage, ChangeEvents, NoteSpike, CorrectUsage: //"}, corrections},
	{mutant{"a correction may have any id", "shard/codec_fingerprint.go", "\tif r.Op == CorrectUsage {", "\tif false {"}, corrections},
	{mutant{"a correction begins a period that it is not for", "shard/eval_correct.go", "if place < len(m.periods)-1 && i >= 0 &&", "if false &&"}, bills},
	{mutant{"corrections of one entry have one revision", "shard/eval.go", "requests[decided].Op == CorrectUsage || requests[decided-1].Op == CorrectUsage ||", "false ||"}, corrections},
	{mutant{"a correction is not on record", "shard/eval_correct.go", "\tauditLog{&e.batch}.append(", "\t_ = (AuditRecord)("}, corrections},
	{mutant{"a correction is written for nodes that cannot read it", "shard/eval_correct.go", "if e.at.Level < LevelNotify {", "if false {"}, corrections},
	{mutant{"a period is corrected that is kept no more", "shard/eval_correct.go", "case p.keptUntil() <= now || !p", "case !p"}, bills},
	{mutant{"a page claims what its batch decides", "shard/eval_usage.go", "Through: b.at.Now - 1}", "Through: b.at.Now}"}, bills},
	{mutant{"what an operation on several shards gives back stays on the bill", "shard/counter_extras.go",
		"\t\t\tc.meters.giveBack(c, h.cost, h.taken, at)\n", ""}, fewClusters("1", "4")},
}

var (
	bills  = suite{"-run=^TestEveryDecisionIsTheTwins$", "./shard", "-seed=1", "-operations=300000"}
	meters = tests("shard", "TestAMeterComesAndGoes|TestARestoreMarksWhatItMayHaveLost|TestNoMeterBeforeItsLevel|"+
		"TestABrimfulShardBeginsNoPeriod|TestAScanMeetsEveryRecord|TestPeriodsCloseWithoutAnEntry")
	corrections = tests("shard", "TestACorrectionIsMadeOnce|TestACorrectionIsOnRecord|TestNoCorrectionBeforeItsLevel")
)

func TestBillMutants(t *testing.T) { judgeMutants(t, billMutants) }
