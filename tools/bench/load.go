package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/edge/certfile"
	"github.com/stint-io/stint/internal/offline/bench"
)

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

// driveWarm runs a plan, after a run of the duration warm that is not measured. An interrupted run is an error.
func driveWarm(
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
