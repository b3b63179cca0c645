package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/stint-io/stint/internal/replay"
	"github.com/stint-io/stint/policy"
)

type simulateCommand struct {
	File   string `short:"f" help:"Policies file. Default: the policies of serve --dev." placeholder:"FILE"`
	Policy string `help:"Only this policy. Default: every one, each alone." placeholder:"NAME"`
	Tier   string `help:"Default: each policy's default tier."`
	Input  string `help:"Log to replay; - is stdin." required:"" placeholder:"FILE"`
	Format string `help:"csv (header time,key[,cost]), auth (sshd) or combined (access log). Default: detected." placeholder:"FORMAT"`
	Year   int    `help:"Of the first line of an auth log: its times have none. Default: this year."`
	output
}

// Help implements kong.HelpProvider.
func (*simulateCommand) Help() string {
	return "What a policy would have done to traffic that already happened. Each event has the log's time.\n\n" +
		"    stint simulate --input /var/log/auth.log --policy login\n" +
		"    stint simulate -f policies.yaml --input access.log -o json"
}

// Run replays the log and prints the report.
func (c *simulateCommand) Run(s streams) error {
	format, err := replay.ParseFormat(c.Format)
	if err != nil {
		return usageError{fmt.Errorf("--format: %w", err)}
	}
	set, err := c.policySet()
	if err != nil {
		return err
	}
	plan := replay.Plan{Tier: c.Tier}
	if c.Policy != "" {
		plan.Policies = []string{c.Policy}
	}
	input, err := openInput(c.Input, s.in)
	if err != nil {
		return fmt.Errorf("--input: %w", err)
	}
	defer input.Close()
	report, err := c.replay(s, input, format, set, plan)
	if err != nil {
		return err
	}
	if c.json() {
		return json.NewEncoder(s.out).Encode(report)
	}
	return report.WriteText(s.out)
}

func (c *simulateCommand) policySet() (*policy.Set, error) {
	if c.File == "" {
		return policy.Dev(), nil
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, fmt.Errorf("policies file: %w", err)
	}
	return policy.Parse(c.File, text)
}

func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

func (c *simulateCommand) replay(s streams, input io.Reader, format replay.Format, set *policy.Set, plan replay.Plan) (
	*replay.Report, error) {
	options := replay.Options{Format: format, Year: c.Year}
	if options.Year == 0 {
		options.Year = time.Now().UTC().Year()
	}
	if s.live() {
		bar := newProgressBar(s.err, inputBytes(input))
		defer bar.Finish()
		options.Progress = func(bytes int64) { bar.Set64(bytes) }
	}
	name := c.Input
	if name == "-" {
		name = "stdin"
	}
	events, err := replay.Open(name, input, options)
	if err != nil {
		return nil, err
	}
	return replay.Run(events, set, plan)
}

// live reports whether somebody watches stderr.
func (s streams) live() bool {
	file, ok := s.err.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// inputBytes is the length of the input, -1 where it has none.
func inputBytes(input io.Reader) int64 {
	if file, ok := input.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return -1
}

// newProgressBar draws bytes read of a total; -1: a total that is not known. It is gone when it is finished.
func newProgressBar(w io.Writer, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("replaying"), progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}
