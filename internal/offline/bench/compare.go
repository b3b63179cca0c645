package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Comparison runs the same work on stint and on a Redis, in turns, so that changes of the machine's speed affect both alike.
type Comparison struct {
	// Plan is stint's half: its Redis ports, the policy of work window, the callers, and the duration of each run. Each work
	// runs on one key, and also on Keys if that is more; with one command at a time, and also in pipelines of Batch if that
	// is more.
	Plan   Plan
	Peer   string // HOST:PORT of the Redis
	Works  []Work
	Wait   int // above 0: the Redis also runs with WAIT for that many replicas, once after each call
	Rounds int // rounds over all cases; 0: 3
}

// Comparisons is the result of a Comparison.
type Comparisons struct {
	Stint       string       `json:"stint"` // addresses of the Redis ports
	Redis       RedisInfo    `json:"redis"`
	Callers     int          `json:"callers"`
	Rounds      int          `json:"rounds"`
	Seconds     float64      `json:"seconds"` // of each run
	Comparisons []CaseOfBoth `json:"comparisons"`
	Wrong       []string     `json:"wrong,omitempty"` // errors that audits found
}

// CaseOfBoth is the result of one case on both sides.
type CaseOfBoth struct {
	Work  Work   `json:"work"`
	Keys  int    `json:"keys"`
	Batch int    `json:"pipeline"`
	Wait  int    `json:"wait"` // replicas that the Redis waited for
	Stint Side   `json:"stint"`
	Redis Side   `json:"redis"`
	Ratio Spread `json:"ratio"` // of the rates, stint's by Redis's, round by round
}

// Side is the result of one side in one case.
type Side struct {
	PerSecond       Spread `json:"perSecond"`
	P50Micros       Spread `json:"p50Micros"` // of a call, that is a pipeline
	P99Micros       Spread `json:"p99Micros"`
	ServerCPUMicros Spread `json:"serverCpuMicros"` // per command, of all nodes or of the Redis and its replicas; 0: unknown
	ClientCPUMicros Spread `json:"clientCpuMicros"`
	Failed          uint64 `json:"failed,omitempty"` // in all rounds, including unknown outcomes
}

// Spread is the median, the minimum and the maximum of several rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	s := Spread{Median: sorted[middle], Min: sorted[0], Max: sorted[len(sorted)-1]}
	if len(sorted)%2 == 0 {
		s.Median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return s
}

// CompareProgress is the progress of a comparison.
type CompareProgress struct {
	Done, Total int    // runs
	Now         string // the run that begins
}

// contender is one side of one case, with the reports of its rounds.
type contender struct {
	plan    Plan
	name    string
	reports []*Report
}

// Validate returns an error that names the first invalid field.
func (c Comparison) Validate() error {
	for _, work := range c.Works {
		if err := c.stint(work, 1, 1).Validate(); err != nil {
			return fmt.Errorf("%s: %w", work, err)
		}
		if err := c.redis(work, 1, 1, c.Wait).Validate(); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	if len(c.Works) == 0 {
		return errors.New("work: name what to compare")
	}
	if c.Rounds < 0 {
		return fmt.Errorf("rounds: %d is less than 1", c.Rounds)
	}
	return nil
}

func (c Comparison) stint(work Work, keys, batch int) Plan {
	p := c.Plan
	p.Protocol, p.Work, p.Keys, p.Batch, p.Fresh = Redis, work, keys, batch, false
	p.KeyPrefix += string(work) + "-"
	return p
}

func (c Comparison) redis(work Work, keys, batch, wait int) Plan {
	p := c.stint(work, keys, batch)
	p.Addresses, p.Policy, p.Redis, p.IsRedis, p.Wait = nil, "", []string{c.Peer}, true, wait
	return p
}

// Run runs all rounds of all cases. If ctx ends first, it returns ctx's error. progress may be nil.
func (c Comparison) Run(ctx context.Context, progress func(CompareProgress)) (*Comparisons, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Plan, c.Rounds = c.Plan.withDefaults(), orDefault(c.Rounds, 3)
	report := &Comparisons{Callers: c.Plan.Callers, Rounds: c.Rounds, Seconds: c.Plan.Duration.Seconds()}
	if err := c.meet(report); err != nil {
		return nil, err
	}
	cases := c.cases()
	defer c.sweep()
	total := 0
	for _, contenders := range cases {
		total += len(contenders) * c.Rounds
	}
	done := 0
	for round := range c.Rounds {
		for _, contenders := range cases {
			order := slices.Clone(contenders)
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, one := range order {
				if progress != nil {
					progress(CompareProgress{done, total, one.name})
				}
				if err := one.run(ctx, round == 0); err != nil {
					return nil, fmt.Errorf("%s: %w", one.name, err)
				}
				done++
			}
		}
	}
	c.sum(report, cases)
	return report, nil
}

// meet asks the Redis for its version and settings.
func (c Comparison) meet(report *Comparisons) (err error) {
	port := newRedisPort(c.redis(Incr, 1, 1, 0).withDefaults())
	defer port.close()
	if report.Redis, err = port.info(); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	if c.Wait > len(report.Redis.Replicas) {
		return fmt.Errorf("wait: %s has %d replicas, so WAIT %d would never be answered", c.Peer, len(report.Redis.Replicas),
			c.Wait)
	}
	return nil
}

// cases returns the contenders of each case: stint first, then the Redis in each of its modes.
func (c Comparison) cases() (cases [][]*contender) {
	for _, work := range c.Works {
		for _, keys := range onceOrMore(c.Plan.Keys) {
			for _, batch := range onceOrMore(c.Plan.Batch) {
				name := fmt.Sprintf("%s, %d keys, pipeline %d", work, keys, batch)
				contenders := []*contender{{plan: c.stint(work, keys, batch), name: "stint, " + name},
					{plan: c.redis(work, keys, batch, 0), name: "Redis, " + name}}
				if c.Wait > 0 {
					contenders = append(contenders, &contender{plan: c.redis(work, keys, batch, c.Wait),
						name: fmt.Sprintf("Redis, %s, WAIT %d", name, c.Wait)})
				}
				cases = append(cases, contenders)
			}
		}
	}
	return cases
}

func onceOrMore(n int) []int {
	if n > 1 {
		return []int{1, n}
	}
	return []int{1}
}

// run measures one round. A shorter run without measurement precedes the first one.
func (c *contender) run(ctx context.Context, warmUp bool) error {
	if warmUp {
		short := c.plan
		short.Duration = min(c.plan.Duration/4, time.Second)
		_, _ = Run(ctx, short, nil) // ignored: the measured run reports errors
	}
	report, err := Run(ctx, c.plan, nil)
	if err == nil {
		err = ctx.Err()
	}
	c.reports = append(c.reports, report)
	return err
}

// sweep deletes the keys that do not expire. Deletion errors are ignored: the figures are complete.
func (c Comparison) sweep() {
	for _, work := range c.Works {
		plans := []Plan{c.redis(work, c.Plan.Keys, 1, 0)}
		if work != Window {
			plans = append(plans, c.stint(work, c.Plan.Keys, 1))
		}
		for _, plan := range plans {
			port := newRedisPort(plan.withDefaults())
			_ = port.sweep()
			port.close()
		}
	}
}

// sum combines the rounds.
func (c Comparison) sum(report *Comparisons, cases [][]*contender) {
	for _, contenders := range cases {
		stint := contenders[0]
		report.Stint = stint.reports[0].Address
		for _, redis := range contenders[1:] {
			var ratios []float64
			for i := range stint.reports {
				ratios = append(ratios, ratio(stint.reports[i].ChecksPerSecond, redis.reports[i].ChecksPerSecond))
			}
			report.Comparisons = append(report.Comparisons, CaseOfBoth{Work: stint.plan.Work, Keys: stint.plan.Keys,
				Batch: stint.plan.Batch, Wait: redis.plan.Wait, Stint: stint.side(), Redis: redis.side(), Ratio: spreadOf(ratios)})
		}
		for _, one := range contenders {
			for _, r := range one.reports {
				if !r.Verdict.OK {
					report.Wrong = append(report.Wrong, one.name+": "+r.Verdict.Text)
				}
			}
		}
	}
}

func (c *contender) side() (s Side) {
	of := func(figure func(*Report) float64) Spread {
		var values []float64
		for _, r := range c.reports {
			values = append(values, figure(r))
		}
		return spreadOf(values)
	}
	for _, r := range c.reports {
		s.Failed += r.Failed + r.Unknown
	}
	s.PerSecond = of(func(r *Report) float64 { return r.ChecksPerSecond })
	s.P50Micros = of(func(r *Report) float64 { return float64(r.Latency.P50) })
	s.P99Micros = of(func(r *Report) float64 { return float64(r.Latency.P99) })
	s.ServerCPUMicros = of(func(r *Report) float64 { return r.ServerCPUMicros })
	s.ClientCPUMicros = of(func(r *Report) float64 { return r.ClientCPUMicros })
	return s
}
