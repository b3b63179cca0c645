package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

type verifyCommand struct {
	Addr     []string      `help:"Nodes of a running cluster: load and checks only, nothing is broken." placeholder:"URL,..."`
	Policy   string        `help:"With --addr, or without it on the cluster that STINT_ADDR names: a policy with one limit whose quota does not come back meanwhile." placeholder:"NAME"`
	Local    int           `help:"Start so many nodes on this machine, and break them. Without --addr: 3." placeholder:"N"`
	Duration time.Duration `help:"How long." default:"30s"`
	Faults   []string      `help:"With --local: kill, kill-all, pause, cut, restart, move; none. With a number among them it makes so many, however long that takes." default:"kill,kill-all,pause,cut,restart,move"`
	Shards   uint32        `help:"Slots move until so many shards share the keys, and then back. Shards that this adds stay, without slots. Default: 6 for the fault move, else no slot moves." placeholder:"N"`
	Count    int           `kong:"-"` // of the faults; 0: as many as --duration has room for
	Lease    bool          `help:"Other clients spend from leases, which nodes answer from memory. With --addr the policy has one."`
	Workers  int           `help:"Clients that contend." default:"16"`
	Keys     int           `help:"Keys they contend for at one time." default:"12"`
	Rate     float64       `help:"Operations per second of all clients; 0: as fast as they are answered." default:"1000"`
	Seed     uint64        `help:"Of the faults and the clients' choices. Default: a random one."`
	Keep     bool          `help:"With --local: leave the nodes' logs and data where they are, and say where."`
	trust
	tokenFlag
	output
}

// Run verifies and prints the result.
func (c *verifyCommand) Run(s streams) error {
	if err := c.completeFlags(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait until slots have moved back
	line := newStatusLine(s)
	verifyCluster := c.running
	if c.Local > 0 {
		verifyCluster = c.local
	}
	result, err := verifyCluster(ctx, s, line)
	line.end()
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if err = show(s, c.output, result, nil, printVerified); err == nil && !result.Exact {
		err = fmt.Errorf("verify: not exact (seed %d)", result.Seed)
	}
	return err
}

// faultMove is the fault of slots that move to other shards.
const faultMove = "move"

// faultNames has the valid values of --faults; the others are each a testcluster.Fault.
var faultNames = []string{"kill", "kill-all", "pause", "cut", "restart", faultMove}

// completeFlags sets defaults and rejects invalid flags.
func (c *verifyCommand) completeFlags() error {
	if err := c.completeFaults(); err != nil {
		return err
	}
	if env := os.Getenv("STINT_ADDR"); len(c.Addr) == 0 && c.Policy != "" && env != "" {
		c.Addr = strings.Split(env, ",") // alone it is not enough: it may be exported for other commands
	}
	switch {
	case c.Local > 0:
		c.Addr = nil
	case len(c.Addr) == 0:
		c.Local = 3
	default:
		r := remote{Addr: strings.Join(c.Addr, ","), trust: c.trust}
		if err := r.validAddr(); err != nil {
			return usageError{err}
		}
		c.Addr = r.urls()
	}
	if at := slices.Index(c.Faults, faultMove); at >= 0 {
		c.Faults = slices.Delete(c.Faults, at, at+1)
		if c.Local > 0 {
			c.Shards = cmp.Or(c.Shards, verifyMore)
		}
	}
	switch {
	case c.Local == 0 && c.Policy == "":
		return usagef("--policy: name the policy to verify with; stint tool verify --help shows one")
	case c.Local < 0 || c.Local > 9:
		return usagef("--local: %d is not within 1..9", c.Local)
	case c.Workers < 1 || c.Keys < 1 || c.Rate < 0 || c.Duration <= 0:
		return usagef("--workers, --keys, --rate and --duration must be more than 0")
	}
	if c.Seed == 0 {
		c.Seed = uint64(rand.Uint32())
	}
	return nil
}

// completeFaults rejects unknown faults. It takes the number of faults out of their names.
func (c *verifyCommand) completeFaults() error {
	if slices.Equal(c.Faults, []string{"none"}) {
		c.Faults = nil
	}
	var names []string
	for _, fault := range c.Faults {
		if n, err := strconv.ParseUint(fault, 10, 31); err == nil && n > 0 {
			c.Count = int(n)
		} else if slices.Contains(faultNames, fault) {
			names = append(names, fault)
		} else {
			return usagef("--faults: %q is none of %s, or none, and no number", fault, strings.Join(faultNames, ", "))
		}
	}
	if c.Count > 0 && len(names) == 0 {
		names = slices.Clone(faultNames)
	}
	c.Faults = names
	return nil
}

func (c *verifyCommand) plan(line *statusLine) verify.Plan {
	return verify.Plan{Keys: c.Keys, Workers: c.Workers, Rate: c.Rate, IDs: 50, Seed: c.Seed,
		Progress: func(p verify.Progress) { line.show(c.progress(p)) }}
}

func (c *verifyCommand) progress(p verify.Progress) string {
	when := fmt.Sprintf("%3.0f of %.0f s", p.Elapsed.Seconds(), c.Duration.Seconds())
	if c.Count > 0 {
		when = fmt.Sprintf("%3.0f s", p.Elapsed.Seconds())
	} else if p.Elapsed > c.Duration {
		when = "finishing"
	}
	text := fmt.Sprintf("%s  admitted %d  denied %d  worst outage %s",
		when, p.Admitted, p.Denied, p.Worst.Round(time.Millisecond))
	if p.Findings > 0 {
		text += fmt.Sprintf("  NOT EXACT: %d findings", p.Findings)
	}
	return text
}

// running verifies a running cluster.
func (c *verifyCommand) running(ctx context.Context, _ streams, line *statusLine) (*verify.Result, error) {
	finding, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	secure, err := c.trust.config()
	if err != nil {
		return nil, err
	}
	token, err := c.tokenTo(c.Addr)
	if err != nil {
		return nil, usageError{err}
	}
	target, err := verify.FindTarget(finding, c.Addr[0], secure, token, c.Policy, c.Lease)
	if why := tlsProblem(err); why != "" {
		return nil, fmt.Errorf("no answer from %s: %s", c.Addr[0], why)
	}
	if err != nil {
		return nil, err
	}
	plan := c.plan(line)
	plan.TLS, plan.Token = secure, token
	plan.Addresses, plan.Targets = c.Addr, []verify.Target{target}
	if c.Lease {
		plan.IDs = 100 // these the owner answers: their units have numbers
		plan.Leases = []verify.Lease{{Policy: c.Policy, Limit: verify.LeasedLimit{Quota: target.Quota}}}
	}
	slots := 0
	result, err := verify.Run(ctx, plan, func(ctx context.Context) (err error) {
		loaded, cancel := context.WithTimeout(ctx, c.Duration)
		defer cancel()
		if c.Shards > 0 {
			slots, err = c.moves(&plan, line).ThereAndBack(ctx)
		}
		if err == nil {
			<-loaded.Done()
		}
		return err
	})
	if result != nil {
		result.SlotsMoved = slots
	}
	return result, err
}

func (c *verifyCommand) moves(p *verify.Plan, line *statusLine) *verify.Moves {
	return &verify.Moves{Addresses: p.Addresses, Token: p.Token, TLS: p.TLS, Shards: []uint32{c.Shards}, Tell: line.say}
}

// verifyPolicies are those of the nodes that verify starts. The constants have their numbers.
//
//go:embed verify.yaml
var verifyPolicies string

const (
	// verifyShards is such that nodes own some each, and requests with several keys are operations.
	verifyShards   = 4
	verifyMore     = 6                      // shards while slots move
	verifyQuota    = 1000                   // of the policies without a lease
	verifyStale    = 250 * time.Millisecond // deny_cache of verify-flood
	verifyLeased   = 500                    // quota of the policies with a lease
	verifyLeasedIn = 10 * time.Second       // their period
)

// startPatience bounds the founding of a cluster.
const startPatience = 60 * time.Second

// local starts nodes, breaks them, and verifies them at the same time.
func (c *verifyCommand) local(ctx context.Context, s streams, line *statusLine) (*verify.Result, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stint-verify-")
	if err != nil {
		return nil, err
	}
	if c.Keep {
		defer func() { fmt.Fprintf(s.err, "logs and data are in %s\n", dir) }()
	} else {
		defer os.RemoveAll(dir)
	}
	line.say(fmt.Sprintf("seed %d: starting %d nodes", c.Seed, c.Local))
	starting, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	cluster, err := testcluster.Start(starting,
		testcluster.Options{Binary: binary, Nodes: c.Local, Shards: verifyShards, Dir: dir,
			Policies: verifyPolicies})
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	plan := c.plan(line)
	plan.Addresses = cluster.Addrs()
	plan.Targets = []verify.Target{{Policy: "verify-day", Quota: verifyQuota},
		{Policy: "verify-stock", Quota: verifyQuota}, {Policy: "verify-flood", Quota: verifyQuota, Stale: verifyStale}}
	if c.Lease {
		limit := verify.LeasedLimit{Quota: verifyLeased, Period: verifyLeasedIn}
		plan.Leases = []verify.Lease{{Policy: "verify-lease-window", Limit: limit},
			{Policy: "verify-lease-log", Limit: limit}}
		plan.Leases[1].Limit.Slides = true
	}
	var faults map[string]int
	slots := 0
	result, err := verify.Run(ctx, plan, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if c.Count == 0 {
			defer time.AfterFunc(c.Duration, cancel).Stop()
		}
		var moving sync.WaitGroup
		var unmoved error
		if c.Shards > 0 {
			moving.Go(func() { slots, unmoved = c.moves(&plan, line).Repeat(ctx) })
		}
		faults, err = cluster.Storm(ctx, testcluster.Storm{Faults: c.Faults, Count: c.Count, Rest: 2 * time.Second,
			Longest: longestFault, Seed: c.Seed, Tell: line.say})
		cancel()
		moving.Wait()
		return errors.Join(err, unmoved)
	})
	if result != nil {
		result.SlotsMoved, result.Faults = slots, faults
	}
	if err != nil || result != nil && !result.Exact {
		fmt.Fprint(s.err, cluster.Logs())
	}
	return result, err
}

// longestFault is the longest fault of a local run: longer than the election of another owner takes.
const longestFault = 4 * time.Second
