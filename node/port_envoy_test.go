package node

import (
	"context"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// Envoys give a decision 20 ms, through both ports. However many answers come too late: what was admitted is counted,
// what is counted was asked for, and what Envoy did not wait for is in a metric.
func TestEnvoysDeadlinesLoseNoCount(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.GRPCAddr = "127.0.0.1:0"
		rules := lifetimePolicy + "envoy: {edge: {rules: [{match: [{k: \"*\"}], entries: [{policy: plenty, " +
			"key: \"{k}\"}]}]}}\n"
		if err := os.WriteFile(config.PoliciesFile, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		defer stop(t, n)
		api := dialGRPCAt(t, n, n.APIAddr())
		envoys := []rlsv3.RateLimitServiceClient{rlsv3.NewRateLimitServiceClient(dialGRPC(t, n)),
			rlsv3.NewRateLimitServiceClient(api)}
		question := &rlsv3.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}}}}
		var admitted, doubts atomic.Uint64
		var callers sync.WaitGroup
		for i := range 32 {
			callers.Go(func() {
				for admitted.Load() < 300 {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					m, err := envoys[i%2].ShouldRateLimit(ctx, question)
					cancel()
					switch code := status.Code(err); {
					case code == codes.OK && m.OverallCode == rlsv3.RateLimitResponse_OK:
						admitted.Add(1)
					case code == codes.DeadlineExceeded, code == codes.Aborted:
						doubts.Add(1)
					case code != codes.Unavailable:
						t.Errorf("%v %v", m, err)
						return
					}
				}
			})
		}
		callers.Wait()
		var used uint64
		await.Until(t, "every call that was counted has ended as ok or as aborted", func() bool {
			page := httptest.NewRecorder()
			n.metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
			ended := map[string]uint64{}
			for _, line := range regexp.MustCompile(`request_duration_seconds_count{code="(\w+)",`+
				`procedure="[^"]*ShouldRateLimit"} (\d+)`).
				FindAllStringSubmatch(page.Body.String(), -1) {
				ended[line[1]], _ = strconv.ParseUint(line[2], 10, 64)
			}
			// each time: a call that its client no longer waits for may still be counted
			r := ask(n, shard.Get, "plenty", "v")
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			used = r.Decision.Limits[0].Used
			return ended["ok"] >= admitted.Load() && ended["ok"] <= used && used <= ended["ok"]+ended["aborted"]
		})
		if used < admitted.Load() || used > admitted.Load()+doubts.Load() {
			t.Errorf("%d admitted, %d in doubt, and %d used", admitted.Load(), doubts.Load(), used)
		}
	})
}
