package replay

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Plan selects the policies of a set to run.
type Plan struct {
	Policies []string // nil means all of them, each alone
	Tier     string   // "" means each policy's default tier
}

// Run replays all events. It fails for an unknown policy or tier, a log without any event, and an event that cannot be
// read or decided; the error names the line. It must not run concurrently on the same Events.
func Run(events *Events, set *policy.Set, plan Plan) (*Report, error) {
	names := plan.Policies
	if names == nil {
		names = set.Names()
	}
	runs := make([]*policyRun, len(names))
	for i, name := range names {
		var err error
		if runs[i], err = newPolicyRun(set, name, plan.Tier); err != nil {
			return nil, err
		}
	}
	err := events.each(func(event Event, now limit.Time) error {
		for _, l := range runs {
			if _, err := l.decide(event, now); err != nil {
				return fmt.Errorf("policy %s: %w", l.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	report := &Report{Log: events.log(plan.Tier), Policies: make([]PolicyReport, len(runs))}
	for i, l := range runs {
		report.Policies[i] = l.report()
	}
	return report, nil
}
