package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/offline/bench"
)

type curveCommand struct {
	Along  string `arg:"" help:"The number and its values: of callers, keys or batch. Of shards one value: what the cluster was created with." placeholder:"NAME=V,..."`
	Series string `help:"The name of the line." default:"stint"`
	Rounds int    `help:"How often each value is run, in turns." default:"3"`
	load   `embed:""`
}

// point is the result of one run of a curve.
type point struct {
	Series          string  `json:"series"`
	X               string  `json:"x"` // the name of the number that was varied
	Value           int     `json:"value"`
	How             string  `json:"how"` // the rest of the plan, for people
	PerSecond       float64 `json:"perSecond"`
	P50Micros       int64   `json:"p50Micros"`
	P99Micros       int64   `json:"p99Micros"`
	ServerCPUMicros float64 `json:"serverCpuMicros"`
}

// Run is the command. It measures every value in each round, so that changes of the machine's speed affect all values
// alike. For keys the order differs, because a server must hold as many keys as the value says: each number of keys has
// all its rounds before the next larger one begins, and every key is used once before the first round.
func (c *curveCommand) Run(ctx context.Context) error {
	x, values, err := parseCurve(c.Along)
	if err != nil {
		return err
	}
	if c.Rounds < 1 {
		return errNoRound
	}
	c.Duration = cmp.Or(c.Duration, 3*time.Second)
	plan, err := c.plan()
	if err != nil {
		return err
	}
	plan.Fresh = false // later runs use the keys of earlier ones
	slices.Sort(values)
	for turn := range len(values) * c.Rounds {
		value := values[turn%len(values)]
		if x == "keys" {
			value = values[turn/c.Rounds]
		}
		p := planAt(plan, x, value)
		if x == "keys" && turn%c.Rounds == 0 {
			walk := p
			walk.Walk, walk.Batch, walk.Callers, walk.Duration, walk.Count = true, 1_000, 16, 0, uint64(value)
			if _, err := c.drive(ctx, walk); err != nil {
				return fmt.Errorf("using %d keys once: %w", value, err)
			}
		}
		if err := c.measure(ctx, p, x, value); err != nil {
			return fmt.Errorf("%s %d: %w", x, value, err)
		}
	}
	return nil
}

// parseCurve reads NAME=VALUE,VALUE,...
func parseCurve(text string) (x string, values []int, err error) {
	x, list, _ := strings.Cut(text, "=")
	if !slices.Contains([]string{"callers", "keys", "batch", "shards"}, x) {
		return "", nil, fmt.Errorf("%q is none of callers, keys, batch, shards", x)
	}
	for word := range strings.SplitSeq(list, ",") {
		value, err := strconv.Atoi(word)
		if err != nil || value < 1 {
			return "", nil, fmt.Errorf("%q is not a number of %s", word, x)
		}
		values = append(values, value)
	}
	if x == "shards" && len(values) > 1 {
		return "", nil, errors.New("shards are chosen when a cluster is created: name the one number that this one has")
	}
	return x, values, nil
}

// planAt returns the plan for one value.
func planAt(p bench.Plan, x string, value int) bench.Plan {
	switch x {
	case "callers":
		p.Callers = value
	case "keys":
		p.Keys = value
	case "batch":
		p.Batch = value
	}
	return p
}

// measure runs one value, after a short run that is not measured, and prints its point.
func (c *curveCommand) measure(ctx context.Context, p bench.Plan, x string, value int) error {
	drive := func(p bench.Plan) (*bench.Report, error) { return c.drive(ctx, p) }
	r, err := driveWarm(ctx, min(p.Duration/4, 500*time.Millisecond), p, drive)
	switch {
	case err != nil:
		return err
	case !r.Verdict.OK:
		return errors.New(r.Verdict.Text)
	}
	fmt.Fprintf(os.Stderr, "%s, %s %d: %.0f checks/s, p99 %d us\n",
		c.Series, x, value, r.ChecksPerSecond, r.Latency.P99)
	return json.NewEncoder(os.Stdout).Encode(point{
		Series:          c.Series,
		X:               x,
		Value:           value,
		How:             planText(p, x),
		PerSecond:       r.ChecksPerSecond,
		P50Micros:       r.Latency.P50,
		P99Micros:       r.Latency.P99,
		ServerCPUMicros: r.ServerCPUMicros,
	})
}

// planText says what was measured besides x, for the caption of a chart.
func planText(p bench.Plan, x string) string {
	words := []string{}
	for _, number := range []struct {
		name  string
		value int
	}{{"callers", p.Callers}, {"keys", p.Keys}, {"batch", p.Batch}} {
		if number.name != x {
			words = append(words, fmt.Sprintf("%s %d", number.name, number.value))
		}
	}
	return fmt.Sprintf("%s, %v each", strings.Join(words, ", "), p.Duration)
}
