package main

import (
	"fmt"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type usageCorrectCommand struct {
	entry
	Units  int64  `arg:"" help:"Units to add to the bill; -500 takes 500 away."`
	Period string `help:"The period: its start, or a year, a month or a day in which it alone starts, as 2026-10. Default: the one that is open." placeholder:"PERIOD"`
	New    bool   `help:"The policy has never billed this key: bill it for the first time. Without it a mistyped key is refused."`
	Meter  string `help:"The meter. Default: the one that the policy has." placeholder:"NAME"`
	auditFlags
	asking
}

// Run corrects a bill and prints it.
func (c *usageCorrectCommand) Run(s streams) error {
	request := &stintv1.CorrectUsageRequest{Namespace: c.Namespace, Policy: c.Policy, Key: c.Key, Meter: c.Meter,
		Period: c.Period, Units: c.Units, Note: c.Note, IdempotencyId: c.ID, New: c.New}
	return asked(s, c.asking.as(c.Actor), "usage correct "+c.String(), maybeDone, c.limits().CorrectUsage, request,
		func(s streams, m *stintv1.CorrectUsageResponse) { printCorrected(s, m.Record) })
}

func printCorrected(s streams, record *stintv1.UsageRecord) {
	if record == nil {
		fmt.Fprintln(s.out, "it was corrected before, under the same --id: stint usage shows the bill")
		return
	}
	write, flush := usageTable(s)
	write(record)
	flush()
	if record.State == stintv1.UsageState_USAGE_STATE_FINAL {
		fmt.Fprintln(s.err,
			"the period is final: tell receivers of its bill, by a sink or a list, about the correction")
	}
}
