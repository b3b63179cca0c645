package mutants

// Not included: an owner that continues after a foreign EpochOpen. The fence drops everything that it proposes, so the
// only effect is a wasted entry (TestForeignEpochOpenClosesAtOnce in package actor detects it).
var ofActor = []group{
	{tests("actor", "TestSimulation", "-worlds=150"), edits{
		"no-gate": before(
			"q.inFlight.openGate(); q.inFlight.parts = nil"),
		"no-epoch-fence":                   never,
		"no-term-fence":                    never,
		"no-number-fence":                  never,
		"epoch-is-the-term":                swap("index", "term"),
		"epoch-brings-its-own-time":        swap("max(s.time, e.time)", "e.time"),
		"dropped-entry-opens-the-gate":     swap("errDropped", "nil"),
		"unknown-outcome-opens-the-gate":   swap("known", "nil"),
		"unknown-becomes-not-applied":      swap("known", "errNotOwner"),
		"failed-proposal-keeps-the-epoch":  gone,
		"wall-clock-for-shard-time":        instead("Now:      now,"),
		"evaluates-without-the-last-entry": without(" && q.inFlight == nil"),
		"abandoned-call-runs":              always,
		"evaluates-by-unlogged-policies":   swap("adopted", "known"),
		"older-policies-adopted":           swap("> r.adopted.Version", "> 0 && r.known.Version != r.adopted.Version"),
		"policies-of-an-earlier-epoch":     before("if q.rules.adopted.Set != nil { return nil }"),
		"handover-does-not-wait":           without(" || q.inFlight != nil"),
		"shard-time-jumps":                 swap("min(max(c.owed, -most), most)", "c.owed + 0*most"),
		"no-idempotency-record":            never,
		"one-id-for-any-request":           always,
		"denial-counts":                    swap("d.Allowed", "d.Allowed || r.Op == Check"),
		"records-forgotten-early":          swap("now", "now+500_000"),
	}},
	{tests("actor", "TestNoReferenceNoEpoch"), edits{
		"epoch-without-clocks": instead("ahead, _ = a.config.Reference(); return ahead, true"),
	}},
	{tests("actor", "TestHandover"), edits{"handover-forgets-what-is-under-way": without(" || q.inFlight != nil")}},
	{tests("actor", "TestHandoverThatFails"), edits{"proposes-during-handover": without(" && !q.paused")}},
	{tests("actor", "TestAStoppedShardDecidesNothingAndLogsItsSums"), edits{
		"stopped-shard-decides": swap("stopped != nil", "stopped != nil && !leads"),
	}},
	{tests("actor", "TestIdleShardsOfANodeTickTogether"), edits{
		"each-idle-shard-wakes": instead("return a.config.OpenEvery + 0*now.Sub(now)"), // R13
	}},
	{tests("actor", "TestWhatIsNotCommittedIsNotTold"), edits{"uncommitted-published": without(" || !installed")}},
}
