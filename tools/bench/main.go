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
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
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
