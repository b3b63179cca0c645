package replay

import (
	"errors"
	"fmt"
	"io"

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
	r, err := newRun(set, plan)
	if err != nil {
		return nil, err
	}
	if err := events.each(r.step); err != nil {
		return nil, err
	}
	return r.report(events), nil
}

// each calls step for all remaining events.
func (e *Events) each(step func(Event) error) error {
	for {
		event, err := e.Next()
		if errors.Is(err, io.EOF) {
			if e.reading.Events == 0 {
				return e.nothing()
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := step(event); err != nil {
			return e.at(err)
		}
	}
}

// run is a replay under way.
type run struct {
	runs []*policyRun
	pace pace
	tier string
}

// pace is the clock of a replay: each event has its own time, or the time of an earlier event if that was later.
type pace struct {
	now        limit.Time
	outOfOrder int
}

func (p *pace) step(event Event) limit.Time {
	if event.At < p.now {
		p.outOfOrder++
	}
	p.now = max(p.now, event.At)
	return p.now
}

func newRun(set *policy.Set, plan Plan) (*run, error) {
	names := plan.Policies
	if names == nil {
		names = set.Names()
	}
	r := &run{tier: plan.Tier}
	for _, name := range names {
		l, err := newPolicyRun(set, name, plan.Tier)
		if err != nil {
			return nil, err
		}
		r.runs = append(r.runs, l)
	}
	return r, nil
}

// step decides one event under every policy.
func (r *run) step(event Event) error {
	now := r.pace.step(event)
	for _, l := range r.runs {
		if _, err := l.decide(event, now); err != nil {
			return fmt.Errorf("policy %s: %w", l.name, err)
		}
	}
	return nil
}

func (r *run) report(events *Events) *Report {
	report := &Report{
		Format:     events.format,
		Tier:       r.tier,
		OutOfOrder: r.pace.outOfOrder,
		Reading:    events.Reading(),
		Policies:   make([]PolicyReport, 0, len(r.runs)),
	}
	for _, l := range r.runs {
		report.Policies = append(report.Policies, l.report())
	}
	return report
}
