package main

import (
	"fmt"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// eventsCommand has the commands about waiting events.
type eventsCommand struct {
	List   eventsListCommand   `cmd:"" default:"withargs" help:"List the events that wait for a sink, and the dead letters."`
	Replay eventsReplayCommand `cmd:"" help:"Send dead letters again."`
}

type eventsListCommand struct {
	Sink  string `help:"Only those for this sink." placeholder:"NAME"`
	State string `help:"Only those that wait, or only dead letters: waiting or dead." enum:",waiting,dead" default:""`
	Count int32  `short:"n" help:"The most lines." default:"100"`
	asking
}

// Run lists events.
func (c *eventsListCommand) Run(s streams) error {
	return asked(s, c.asking, "events", "", c.sinks().ListEvents,
		&stintv1.ListEventsRequest{Sink: c.Sink, State: c.State, Count: c.Count}, printEvents)
}

func printEvents(s streams, answer *stintv1.ListEventsResponse) {
	for _, one := range answer.Missing {
		fmt.Fprintf(s.err, "shard %s did not answer: its events are not in the list\n", one)
	}
	if len(answer.Events) == 0 {
		fmt.Fprintln(s.out, "no event waits, and there are no dead letters")
		return
	}
	if answer.More {
		defer fmt.Fprintln(s.err, "there are more: -n")
	}
	printTable(s, "AT\tSTATE\tSINK\tKIND\tPOLICY\tKEY\tLIMIT\tID\tWHY", answer.Events,
		func(e *stintv1.SinkEvent) []any {
			return []any{instant(e.At), e.State, e.Sink, e.Kind, e.Policy, e.Key, e.Limit, e.Id, e.Why}
		})
}

type eventsReplayCommand struct {
	Sink string `help:"Only those for this sink." placeholder:"NAME"`
	ID   string `help:"Only this event." placeholder:"ID"`
	Note string `help:"For the audit log."`
	asking
}

// Run replays dead letters.
func (c *eventsReplayCommand) Run(s streams) error {
	return asked(s, c.asking, "events replay",
		"some may be sent again: stint sink events lists the others; replay again", c.sinks().ReplayEvents,
		&stintv1.ReplayEventsRequest{Sink: c.Sink, Id: c.ID, Note: c.Note},
		func(s streams, m *stintv1.ReplayEventsResponse) {
			fmt.Fprintf(s.out, "%d dead letters are sent again\n", m.Replayed)
		})
}
