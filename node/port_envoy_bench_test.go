package node

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// BenchmarkEnvoyBesideCheck asks the port of grpc-go for single checks of 100,000 keys, 64 at a time, directly and as
// Envoy does. An iteration is a second of each, in turns:
//
//	go test ./node -run '^$' -bench EnvoyBesideCheck -benchtime 10x
func BenchmarkEnvoyBesideCheck(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			c := trioToBe(b)
			for i := range nodes {
				c.configs[i].GRPCAddr, c.configs[i].BootstrapExpect = "127.0.0.1:0", nodes
				if nodes == 1 {
					c.configs[i].Join = nil
				}
				c.configs[i].Logger = slog.New(slog.DiscardHandler)
				rules := lifetimePolicy + "envoy: {edge: {rules: [{match: [{k: \"*\"}], entries: [{policy: plenty, " +
					"key: \"{k}\"}]}]}}\n"
				if err := os.WriteFile(c.configs[i].PoliciesFile, []byte(rules), 0o600); err != nil {
					b.Fatal(err)
				}
				c.start(i)
			}
			var conns []*grpc.ClientConn
			for i := range nodes {
				c.ready(i)
				conn, err := grpc.NewClient(c.nodes[i].GRPCAddr(),
					grpc.WithTransportCredentials(insecure.NewCredentials()))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { conn.Close() })
				conns = append(conns, conn)
			}
			direct := func(ctx context.Context, conn *grpc.ClientConn, key string) error {
				return conn.Invoke(ctx, stintv1connect.LimitServiceCheckProcedure, plentyOf(key),
					&stintv1.CheckResponse{})
			}
			envoy := func(ctx context.Context, conn *grpc.ClientConn, key string) error {
				_, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx,
					&rlsv3.RateLimitRequest{Domain: "edge",
						Descriptors: []*ratelimitv3.RateLimitDescriptor{
							{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "k", Value: key}}}}})
				return err
			}
			besideCheck(b, "envoy", conns, direct, envoy)
		})
	}
}

// besideCheck asks in two ways, a second of each in turns, and reports the rates, the ratio and its range, the time
// that 99 of 100 answers took at most, and the processor time.
func besideCheck[C any](b *testing.B, name string, conns []C, direct, other func(context.Context, C, string) error) {
	var checks, questions, ratios []float64
	var tails, costs [2][]float64
	for range b.N {
		n, p99, cost := second(b, conns, direct)
		m, q99, dear := second(b, conns, other)
		checks, questions, ratios = append(checks, n), append(questions, m), append(ratios, m/n)
		tails[0], tails[1] = append(tails[0], p99), append(tails[1], q99)
		costs[0], costs[1] = append(costs[0], cost), append(costs[1], dear)
	}
	b.ReportMetric(middle(costs[0]), "check-cpu-us")
	b.ReportMetric(middle(costs[1]), name+"-cpu-us")
	b.ReportMetric(middle(checks), "checks/s")
	b.ReportMetric(middle(questions), name+"/s")
	b.ReportMetric(middle(ratios), "ratio")
	b.ReportMetric(slices.Min(ratios), "ratio-min")
	b.ReportMetric(slices.Max(ratios), "ratio-max")
	b.ReportMetric(middle(tails[0]), "check-p99-ms")
	b.ReportMetric(middle(tails[1]), name+"-p99-ms")
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// second asks for a second. It returns how many answers came, the time that 99 of 100 took at most, in milliseconds,
// and the processor time of servers and callers for each, in microseconds.
func second[C any](b *testing.B, conns []C, ask func(context.Context, C, string) error) (perSecond, p99, cpu float64) {
	cpuBefore := processorTime()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var callers sync.WaitGroup
	began := time.Now()
	for i := range 64 {
		callers.Go(func() {
			var own []time.Duration
			for time.Since(began) < time.Second {
				asked := time.Now()
				if err := ask(ctx, conns[i%len(conns)], fmt.Sprint("user:", rand.IntN(100_000))); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(asked))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	callers.Wait()
	slices.Sort(took)
	return float64(len(took)) / time.Since(began).Seconds(), float64(took[len(took)*99/100].Microseconds()) / 1000,
		float64((processorTime() - cpuBefore).Microseconds()) / float64(len(took))
}
