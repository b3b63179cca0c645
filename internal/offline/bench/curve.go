package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Curve is a plan that runs with several values of one of its numbers.
type Curve struct {
	Plan   Plan
	X      string // callers, keys or batch; shards: of the cluster, which a run cannot change
	Values []int  // at least one; exactly one for shards
	Series string // name of the line
	Rounds int
}

// Point is the result of one run of a curve.
type Point struct {
	Series          string   `json:"series"`
	X               string   `json:"x"`
	Value           int      `json:"value"`
	Protocol        Protocol `json:"protocol"`
	Work            Work     `json:"work"`
	Policy          string   `json:"policy"`
	Callers         int      `json:"callers"`
	Keys            int      `json:"keys"`
	Batch           int      `json:"batch"`
	Seconds         float64  `json:"seconds"`
	PerSecond       float64  `json:"perSecond"`
	P50Micros       int64    `json:"p50Micros"`
	P99Micros       int64    `json:"p99Micros"`
	ServerCPUMicros float64  `json:"serverCpuMicros"`
}

// ParseCurve reads NAME=VALUE,VALUE,...
func ParseCurve(text string) (x string, values []int, err error) {
	x, list, _ := strings.Cut(text, "=")
	if !slices.Contains([]string{"callers", "keys", "batch", "shards"}, x) {
		return "", nil, fmt.Errorf("curve: %q is none of callers, keys, batch, shards", x)
	}
	for word := range strings.SplitSeq(list, ",") {
		value, err := strconv.Atoi(word)
		if err != nil || value < 1 {
			return "", nil, fmt.Errorf("curve: %q is not a number of %s", word, x)
		}
		values = append(values, value)
	}
	if x == "shards" && len(values) > 1 {
		return "", nil, fmt.Errorf("curve: shards are chosen when a cluster is created: name the one number that this one has")
	}
	return x, values, nil
}

// at returns the plan for one value.
func (c Curve) at(value int) Plan {
	p := c.Plan
	switch c.X {
	case "callers":
		p.Callers = value
	case "keys":
		p.Keys = value
	case "batch":
		p.Batch = value
	}
	return p
}

// Validate returns an error that names the first invalid value.
func (c Curve) Validate() error {
	for _, value := range c.Values {
		if err := c.at(value).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Run measures every value in each round, so that changes of the machine's speed affect all values alike. For keys the order
// differs, because a server must hold as many keys as the value says: each number of keys has all its rounds before the next
// larger one begins, and every key is used once before the first round. Run passes each point to tell as soon as it is
// measured.
func (c Curve) Run(ctx context.Context, tell func(Point) error) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Plan.Fresh && c.Plan.Protocol == Redis && !c.Plan.asksPolicy() {
		defer c.sweep()
	}
	c.Plan.Fresh = false // later runs use the keys of earlier ones
	if c.X == "keys" {
		return c.alongKeys(ctx, tell)
	}
	for range c.Rounds {
		for _, value := range c.Values {
			if err := c.measure(ctx, value, c.at(value), tell); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c Curve) alongKeys(ctx context.Context, tell func(Point) error) error {
	for _, value := range slices.Sorted(slices.Values(c.Values)) {
		p := c.at(value)
		walk := p
		walk.Walk, walk.Batch, walk.Callers, walk.Duration, walk.Count = true, batchMax, 16, 0, uint64(value)
		if _, err := Run(ctx, walk, nil); err != nil {
			return fmt.Errorf("using %d keys once: %w", value, err)
		}
		for range c.Rounds {
			if err := c.measure(ctx, value, p, tell); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep deletes the keys that do not expire. Deletion errors are ignored: the figures are complete.
func (c Curve) sweep() {
	port := newRedisPort(c.at(slices.Max(c.Values)).withDefaults())
	defer port.close()
	_ = port.sweep()
}

func (c Curve) measure(ctx context.Context, value int, p Plan, tell func(Point) error) error {
	short := p
	short.Duration = min(p.Duration/4, 500*time.Millisecond)
	_, _ = Run(ctx, short, nil) // warm-up; the measured run reports errors
	r, err := Run(ctx, p, nil)
	switch {
	case err != nil:
		return fmt.Errorf("%s %d: %w", c.X, value, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case !r.Verdict.OK:
		return fmt.Errorf("%s %d: %s", c.X, value, r.Verdict.Text)
	}
	p = p.withDefaults()
	return tell(Point{c.Series, c.X, value, p.Protocol, p.Work, p.Policy, p.Callers, p.Keys, p.Batch, p.Duration.Seconds(),
		r.ChecksPerSecond, r.Latency.P50, r.Latency.P99, r.ServerCPUMicros})
}

// ReadPoints reads points, one JSON object per line.
func ReadPoints(r io.Reader) (points []Point, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var p Point
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(points)+1, err)
		}
		points = append(points, p)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("there are no points")
	}
	for _, p := range points {
		if p.X != points[0].X || p.Value < 1 {
			return nil, fmt.Errorf("a chart is of one number: %s, but there are points of %s", points[0].X, p.X)
		}
	}
	return points, nil
}
