package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stint-io/stint/internal/offline/replay"
	"github.com/stint-io/stint/policy"
)

type simulateCommand struct {
	File    string   `short:"f" help:"Policies file. Default: the policies of serve --dev." placeholder:"FILE"`
	Compare bool     `help:"Show whom the second of two policies files would newly deny and newly admit."`
	Files   []string `arg:"" optional:"" name:"file" help:"With --compare: the old policies file and the new one."`
	Policy  string   `help:"Only this policy. Default: every one, each alone." placeholder:"NAME"`
	Tier    string   `help:"Default: each policy's default tier."`
	Input   string   `help:"Log to replay; - is stdin." required:"" placeholder:"FILE"`
	Format  string   `help:"csv (header time,key[,cost]), auth (a system log: sshd, PAM, ftpd) or combined (an access log, with virtual hosts or without). Default: detected." placeholder:"FORMAT"`
	Year    int      `help:"Of the first event of an auth log: its times have none. Default: the newest in which it has happened already."`
	output
}

// yearFirst and yearLast bound the years that log times with a year can express.
const yearFirst, yearLast = 1970, 9999

// simulated is the result of a replay, which -o json prints.
type simulated interface{ WriteText(io.Writer) error }

// Run replays the log and prints the report.
func (c *simulateCommand) Run(s streams) error {
	format, err := replay.ParseFormat(c.Format)
	if err != nil {
		return usageError{fmt.Errorf("--format: %w", err)}
	}
	if c.Year != 0 && (c.Year < yearFirst || c.Year > yearLast) {
		return usageError{fmt.Errorf("--year: %d is not between %d and %d", c.Year, yearFirst, yearLast)}
	}
	trial, err := c.trial()
	if err != nil {
		return err
	}
	input, err := openInput(c.Input, s.in)
	if err != nil {
		return fmt.Errorf("--input: %w", err)
	}
	defer input.Close()
	report, err := c.replay(s, input, format, trial)
	return show(s, c.output, report, err, func(s streams, r simulated) { r.WriteText(s.out) })
}

// trial reads the policies and returns the function that replays the events.
func (c *simulateCommand) trial() (func(*replay.Events) (simulated, error), error) {
	plan := replay.Plan{Tier: c.Tier}
	if c.Policy != "" {
		plan.Policies = []string{c.Policy}
	}
	switch {
	case !c.Compare && len(c.Files) > 0:
		return nil, usageError{fmt.Errorf("%s: files are named with --compare only; for one file use -f", c.Files[0])}
	case c.Compare && (len(c.Files) != 2 || c.File != ""):
		return nil, usageError{errors.New("--compare: name two policies files behind it, " +
			"the old one and the new one, and no -f")}
	case c.Compare:
		before, err := readPolicySet(c.Files[0])
		if err != nil {
			return nil, err
		}
		after, err := readPolicySet(c.Files[1])
		return func(events *replay.Events) (simulated, error) { return replay.Compare(events, before, after, plan) },
			err
	}
	set, err := policy.Dev(), error(nil)
	if c.File != "" {
		set, err = readPolicySet(c.File)
	}
	return func(events *replay.Events) (simulated, error) { return replay.Run(events, set, plan) }, err
}

func (c *simulateCommand) replay(s streams, input io.Reader, format replay.Format,
	trial func(*replay.Events) (simulated, error)) (simulated, error) {
	options := replay.Options{Format: format, Year: c.Year, Now: time.Now().UTC()}
	if s.live() {
		total := float64(inputBytes(input))
		defer overwrite(s.err, "")
		options.Progress = func(bytes int64) {
			overwrite(s.err, fmt.Sprintf("replaying %s %.1f MiB",
				progressBar(float64(bytes)/total), float64(bytes)/(1<<20)))
		}
	}
	name := c.Input
	if name == "-" {
		name = "stdin"
	}
	events, err := replay.Open(name, input, options)
	if err != nil {
		return nil, err
	}
	return trial(events)
}

// inputBytes returns the length of the input, or -1 if it is not a regular file.
func inputBytes(input io.Reader) int64 {
	if file, ok := input.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return -1
}
