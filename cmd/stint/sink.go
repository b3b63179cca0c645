package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// sinkCommand has the commands about event sinks.
type sinkCommand struct {
	Create  sinkCreateCommand  `cmd:"" help:"Make a sink, and print its secret once."`
	List    sinkListCommand    `cmd:"" default:"withargs" help:"List sinks, without their secrets."`
	Rotate  sinkRotateCommand  `cmd:"" help:"Sign with a new secret, for a while beside the former one."`
	Enable  sinkEnableCommand  `cmd:"" help:"Send again to a sink that is disabled."`
	Disable sinkDisableCommand `cmd:"" help:"Send nothing until the sink is enabled; its events wait."`
	Delete  sinkDeleteCommand  `cmd:"" help:"End a sink."`
	Events  eventsCommand      `cmd:"" help:"List the events that wait for a sink, and send dead letters again."`
}

type sinkCreateCommand struct {
	Name       string   `arg:"" help:"Its name, which policies put into notify."`
	Kind       string   `required:"" enum:"webhook,stripe,cloudevents" help:"webhook, stripe or cloudevents."`
	URL        string   `name:"url" help:"Where events are posted to. It may be left out for stripe." placeholder:"URL"`
	Events     []string `required:"" help:"What it takes: threshold, usage, spike; only a webhook takes others than usage." placeholder:"KIND"`
	APIKeyFile string   `name:"api-key-file" help:"For stripe and cloudevents: a file with the API key; - is stdin." placeholder:"FILE"`
	Prefix     string   `help:"For stripe and cloudevents: how the keys of customers begin, as customer: in customer:cus_123." placeholder:"TEXT"`
	asking
}

// Run makes the sink. The secret alone goes to stdout, so that it can go into a file.
func (c *sinkCreateCommand) Run(s streams) error {
	request := &stintv1.CreateSinkRequest{Name: c.Name, Kind: c.Kind, Url: c.URL, Events: c.Events, Prefix: c.Prefix}
	if c.Kind != "stripe" && c.URL == "" {
		return usagef("sink create: say where events are posted to: --url https://example.com/hooks")
	}
	var err error
	if request.ApiKey, err = apiKeyOf(c.Kind == "stripe", c.APIKeyFile, s.in); err != nil {
		return err
	}
	return asked(s, c.asking, "sink create "+c.Name,
		"it may have been made: stint sink list shows it; delete it and make it again", c.sinks().Create, request,
		printSinkSecret)
}

// printSinkSecret prints the secret of a sink, if there is one.
func printSinkSecret[M interface{ GetSecret() string }](s streams, m M) {
	if secret := m.GetSecret(); secret != "" {
		fmt.Fprintln(s.out, secret)
		fmt.Fprintln(s.err, "This is shown once: give it to the receiver, which verifies signatures with it.")
	}
}

// apiKeyMost bounds the bytes read of a file with an API key.
const apiKeyMost = 4 << 10

// apiKeyOf reads an API key from a file, and never from the arguments, which every user of a machine can see.
func apiKeyOf(wanted bool, file string, stdin io.Reader) (string, error) {
	switch {
	case wanted && file == "":
		return "", usagef("a sink of kind stripe needs the API key: --api-key-file FILE, or - for stdin")
	case file == "":
		return "", nil
	}
	from := stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", usagef("--api-key-file: %w", err)
		}
		defer opened.Close()
		from = opened
	}
	text, err := bufio.NewReader(io.LimitReader(from, apiKeyMost)).ReadString('\n')
	if key := strings.TrimSpace(text); key != "" {
		return key, nil
	}
	return "", usagef("--api-key-file: %s has no API key in its first line: %v", file, err)
}

type sinkListCommand struct {
	asking
}

// Run lists sinks.
func (c *sinkListCommand) Run(s streams) error {
	return asked(s, c.asking, "sink list", "", c.sinks().List, &stintv1.ListSinksRequest{}, printSinks)
}

func printSinks(s streams, answer *stintv1.ListSinksResponse) {
	if len(answer.Sinks) == 0 {
		fmt.Fprintln(s.out, "there are no sinks")
		return
	}
	printTable(s, "NAME\tKIND\tEVENTS\tURL\tSTATE", answer.Sinks, func(one *stintv1.Sink) []any {
		state := "enabled"
		if one.DisabledAt != nil {
			state = "disabled " + instant(one.DisabledAt) + ": " + one.DisabledWhy
		} else if one.Failing != "" {
			state = "failing: " + one.Failing
		}
		return []any{one.Name, one.Kind, strings.Join(one.Events, ","), one.Url, state}
	})
	for _, one := range answer.Sinks {
		if one.SkippedBills == 0 {
			continue
		}
		fmt.Fprintf(s.out, "bills that %s was not sent and will not be: %d; "+
			"enter them by hand, then stint sink enable %s\n", one.Name, one.SkippedBills, one.Name)
		for _, bill := range one.SkippedNewest {
			fmt.Fprintf(s.out, "  %s: %s\n", bill.Id, bill.Why)
		}
		if more := one.SkippedBills - uint64(len(one.SkippedNewest)); more > 0 {
			fmt.Fprintf(s.out, "  and %d older: the nodes' logs name them\n", more)
		}
	}
}

type sinkRotateCommand struct {
	Name       string        `arg:"" help:"The sink."`
	Overlap    time.Duration `help:"How long messages are signed with the former secret too." default:"0s" placeholder:"DURATION"`
	APIKeyFile string        `name:"api-key-file" help:"For stripe and cloudevents: a file with the new API key; - is stdin." placeholder:"FILE"`
	asking
}

// Run replaces the secret.
func (c *sinkRotateCommand) Run(s streams) error {
	key, err := apiKeyOf(false, c.APIKeyFile, s.in)
	if err != nil {
		return err
	}
	request := &stintv1.RotateSinkRequest{Name: c.Name, Overlap: durationpb.New(c.Overlap), ApiKey: key}
	return asked(s, c.asking, "sink rotate "+c.Name, "it may have been done: rotate it again", c.sinks().Rotate,
		request, printSinkSecret)
}

// namedSink has the flags of the commands that change the state of one sink.
type namedSink struct {
	Name string `arg:"" help:"The sink."`
	remote
}

type sinkEnableCommand struct{ namedSink }

// Run enables the sink.
func (c *sinkEnableCommand) Run(s streams) error {
	return changeSink(c.namedSink, s, "enable", "is enabled: what waits is sent",
		c.sinks().Enable, &stintv1.EnableSinkRequest{Name: c.Name})
}

type sinkDisableCommand struct{ namedSink }

// Run disables the sink.
func (c *sinkDisableCommand) Run(s streams) error {
	return changeSink(c.namedSink, s, "disable", "is disabled: its events wait, for three days",
		c.sinks().Disable, &stintv1.DisableSinkRequest{Name: c.Name})
}

type sinkDeleteCommand struct{ namedSink }

// Run deletes the sink.
func (c *sinkDeleteCommand) Run(s streams) error {
	return changeSink(c.namedSink, s, "delete", "is deleted",
		c.sinks().Delete, &stintv1.DeleteSinkRequest{Name: c.Name})
}

// changeSink makes one call about a sink, and prints the change.
func changeSink[Q, A any](
	sink namedSink, s streams, action, verdict string,
	call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), message *Q,
) error {
	return asked(s, asking{remote: sink.remote}, "sink "+action+" "+sink.Name,
		"it may have been done: stint sink list shows it", call, message,
		func(s streams, _ *A) { fmt.Fprintf(s.out, "%s %s\n", sink.Name, verdict) })
}
