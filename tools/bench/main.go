// Command bench measures stint in the ways that need more than `stint tool bench`: over the Redis protocol, beside a
// Redis, and along a curve. The load and the audit are those of `stint tool bench` (internal/offline/bench).
// docs/benchmarks has the scripts.
//
//	go build -C tools/bench -o bench .
//	bench run --policy free --protocol redis --batch 16           one run; prints its report as JSON
//	bench compare --peer 127.0.0.1:6380 --keys 100000 --wait 1    beside a Redis; prints a table in Markdown
//	bench curve --policy free callers=1,16,256 > points.json      one run for each value; prints each as a line of JSON
//	bench draw points.json > curve.svg                            and their picture
//
// It is a module of its own, so that a client of Redis and a library of charts are no part of the server.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-io/stint/internal/edge/certfile"
	"github.com/stint-io/stint/internal/offline/bench"
)

type commands struct {
	Run     runCommand     `cmd:"" help:"Run once and print the report as JSON."`
	Compare compareCommand `cmd:"" help:"Run the same work on the Redis ports of stint and on a Redis, in turns, and print a table."`
	Curve   curveCommand   `cmd:"" help:"Run once for each value of a number, and print each run as a line of JSON."`
	Draw    drawCommand    `cmd:"" help:"Draw the points of curves as SVG, on stdout."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	k := kong.Parse(&commands{}, kong.BindTo(ctx, (*context.Context)(nil)))
	k.FatalIfErrorf(k.Run())
}

// load has the flags of the commands that put load on stint.
type load struct {
	Addr       []string `help:"Where the nodes are." default:"127.0.0.1:7400" env:"STINT_ADDR" placeholder:"URL,..."`
	RedisAddr  []string `help:"Their Redis ports, for --protocol redis." default:"127.0.0.1:6379" placeholder:"HOST:PORT,..."`
	Work       work     `help:"--protocol redis: check (STINT.CHECK of the policy), incr (INCR) or bucket (CL.THROTTLE)." enum:"check,incr,bucket" default:"check"`
	CA         string   `name:"ca" help:"Authorities of the nodes' certificates." placeholder:"FILE" env:"STINT_CA"`
	TokenFile  string   `help:"File with the token to send." placeholder:"FILE" env:"STINT_TOKEN_FILE"`
	bench.Plan `embed:""`
}

// overRedis is the protocol that package bench does not have: RESP, with a batch as a pipeline.
const overRedis bench.Protocol = "redis"

// plan completes the plan of the flags.
func (l *load) plan() (p bench.Plan, err error) {
	p = l.Plan.WithKeys()
	scheme := "http://"
	if l.CA != "" {
		scheme = "https://"
		authorities, err := certfile.Authorities(l.CA)
		if err != nil {
			return p, fmt.Errorf("--ca: %w", err)
		}
		p.TLS = &tls.Config{RootCAs: authorities}
	}
	for _, address := range l.Addr {
		if !strings.Contains(address, "://") {
			address = scheme + address
		}
		p.Addresses = append(p.Addresses, address)
	}
	if l.TokenFile != "" {
		token, err := os.ReadFile(l.TokenFile)
		if err != nil {
			return p, fmt.Errorf("--token-file: %w", err)
		}
		p.Token = strings.TrimSpace(string(token))
	}
	if p.Protocol == overRedis {
		return p, p.CheckLoad()
	}
	return p, p.Check()
}

// drive runs a plan once.
func (l *load) drive(ctx context.Context, p bench.Plan) (*bench.Report, error) {
	if p.Protocol != overRedis {
		return bench.Run(ctx, p, nil)
	}
	port, err := newStintPort(ctx, p, l.RedisAddr, l.Work)
	if err != nil {
		return nil, err
	}
	return bench.Drive(ctx, p, port, nil)
}

// measured runs a plan, after a run of the duration warm that is not measured. An interrupted run is an error.
func measured(
	ctx context.Context, warm time.Duration, p bench.Plan, drive func(bench.Plan) (*bench.Report, error),
) (*bench.Report, error) {
	if warm > 0 {
		short := p
		short.Duration = warm
		_, _ = drive(short) // the measured run reports errors
	}
	report, err := drive(p)
	if err == nil {
		err = ctx.Err()
	}
	return report, err
}

type runCommand struct {
	load `embed:""`
}

// Run is the command.
func (c *runCommand) Run(ctx context.Context) error {
	p, err := c.plan()
	if err != nil {
		return err
	}
	report, err := c.drive(ctx, p)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	if !report.Verdict.OK {
		return errors.New(report.Verdict.Text)
	}
	return nil
}
