package mutants

// Whole clusters: a few worlds are enough to detect units that are lost or invented wherever something fails. Most of these
// guards have a smaller test as well.
var ofSim = []group{
	{lucky(tests("internal/sim", "TestClusters", "-sim.first=1", "-sim.worlds=6")), edits{
		"answers-before-fsync-in-clusters": instead("return d.Apply(batch, pebble.NoSync)"),
		"new-number-for-each-copy":         instead("r.Session, r.Number, r.Acked = shard.Session{}, 0, 0"),
		"refunded-twice-in-clusters":       swap("found {", "found && t.Hold {"),
		"tally-adds-again":                 swap("!e.brimful", "!e.brimful && r.Op != Tally"),
		"snapshot-lacks-sessions": before(
			"var gone []string; for key := range s.table.all() { if len(key) > 0 && key[0] == sessionRecord { " +
				"gone = append(gone, string(key)) } }; for _, key := range gone { s.table.forget(key) }"),
	}},
	{lucky(tests("internal/sim", "TestClusters", "-sim.first=1", "-sim.worlds=4")), edits{
		"no-idempotency-record-in-clusters":    never,
		"lease-over-at-settlement-in-clusters": gone,
		"commit-keeps-lease-in-clusters":       instead("if back && l.counts(h) {"),
		"aborted-leg-keeps-its-holds":          gone,
		"leg-keeps-what-was-settled":           before("if l.state == legHeld { l.state = legCommitted; break }"),
		"operation-credits-nothing":            gone,
	}},
	// A calm world: no request may fail in it. One time in six it has no request in the wrong instant.
	{lucky(tests("internal/sim", "TestClusters", "-sim.seed=54", "-test.count=3")), edits{
		"stop-hands-nothing-over": always,
	}},
	{lucky(tests("internal/sim", "TestClusters", "-sim.first=1", "-sim.worlds=8")), edits{
		"snapshot-not-fsynced-in-clusters": without("k.file.Sync(), "),
	}},
}
