package replay

import (
	"errors"
	"fmt"
	"io"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Plan says which policies of a set are tried.
type Plan struct {
	Policies []string // nil: all of them, each alone
	Tier     string   // "": each policy's default tier
}

// Run replays all events. It fails on an unknown policy or tier, and on an event that cannot be read or decided; the
// error names the line.
func Run(events *Events, set *policy.Set, plan Plan) (*Report, error) {
	r, err := newRun(set, plan)
	if err != nil {
		return nil, err
	}
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			return r.report(events), nil
		}
		if err != nil {
			return nil, err
		}
		if err := r.step(event); err != nil {
			return nil, events.at(err)
		}
	}
}

// run is a replay under way.
type run struct {
	lanes      []*lane
	now        limit.Time
	outOfOrder int
	tier       string
}

func newRun(set *policy.Set, plan Plan) (*run, error) {
	names := plan.Policies
	if names == nil {
		names = set.Names()
	}
	r := &run{tier: plan.Tier}
	for _, name := range names {
		l, err := newLane(set, name, plan.Tier)
		if err != nil {
			return nil, err
		}
		r.lanes = append(r.lanes, l)
	}
	return r, nil
}

// step decides one event under every policy, at its own time or at that of the event before it if that was later.
func (r *run) step(event Event) error {
	if event.At < r.now {
		r.outOfOrder++
	}
	r.now = max(r.now, event.At)
	for _, l := range r.lanes {
		if err := l.decide(event, r.now); err != nil {
			return fmt.Errorf("policy %s: %w", l.name, err)
		}
	}
	return nil
}

func (r *run) report(events *Events) *Report {
	report := &Report{
		Format:     events.format,
		Tier:       r.tier,
		OutOfOrder: r.outOfOrder,
		Unreadable: events.unreadable,
		Policies:   make([]PolicyReport, 0, len(r.lanes)),
	}
	if events.firstUnreadable != nil {
		report.FirstUnreadable = events.firstUnreadable.Error()
	}
	for _, l := range r.lanes {
		report.Policies = append(report.Policies, l.report())
	}
	return report
}
