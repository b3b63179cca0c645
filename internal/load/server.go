package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// server is what a run asks besides its load: the policy, the draining of keys, the processor time.
type server struct {
	plan     Plan
	http     *http.Client
	limits   stintv1connect.LimitServiceClient
	policies stintv1connect.PolicyServiceClient
}

func newServer(p Plan) *server {
	h := &http.Client{Timeout: p.Timeout}
	return &server{plan: p, http: h, limits: stintv1connect.NewLimitServiceClient(h, p.Address),
		policies: stintv1connect.NewPolicyServiceClient(h, p.Address)}
}

// rules reads the policy's limits. unbounded says why there can be no audit; err ends the run.
func (s *server) rules(ctx context.Context) (rules []rule, unbounded, err error) {
	answer, err := s.policies.List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the policies of %s: %w", s.plan.Address, err)
	}
	for _, p := range answer.Msg.Policies {
		if p.Name == s.plan.Policy {
			rules, unbounded = rulesOf(p, s.plan.Tier)
			return rules, unbounded, nil
		}
	}
	return nil, nil, fmt.Errorf("%s has no policy %q", s.plan.Address, s.plan.Policy)
}

// drain spends all that the drained keys have, so that the run finds them denied. It enters it into the ledger.
func (s *server) drain(ctx context.Context, l *ledger, units uint64) error {
	if s.plan.drainedKeys() == 0 {
		return nil
	}
	if units == 0 || units > 1<<40 {
		return fmt.Errorf("denied: policy %s has no limit that one check could drain", s.plan.Policy)
	}
	for first := s.plan.Keys; first < len(l.accounts); first += batchMax {
		if err := s.drainSome(ctx, l, first, min(first+batchMax, len(l.accounts)), units); err != nil {
			return fmt.Errorf("draining keys for the denied share: %w", err)
		}
	}
	return nil
}

func (s *server) drainSome(ctx context.Context, l *ledger, first, end int, units uint64) error {
	request := &stintv1.CheckBatchRequest{}
	for key := first; key < end; key++ {
		request.Checks = append(request.Checks, &stintv1.CheckRequest{Namespace: s.plan.Namespace,
			Entries: []*stintv1.Entry{{Policy: s.plan.Policy, Key: keyName(s.plan.KeyPrefix, uint32(key)),
				Cost: &units, Tier: s.plan.Tier}}})
	}
	answer, err := s.limits.CheckBatch(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	for i, result := range answer.Msg.Results {
		if !result.GetDecision().GetAllowed() {
			return fmt.Errorf("key %s was not at rest: choose a fresh key prefix", keyName(s.plan.KeyPrefix, uint32(first+i)))
		}
		l.enter(uint32(first+i), allowed, units)
	}
	return nil
}

// cpu is processor time spent so far. NaN: not known.
type cpu struct{ server, client float64 } // seconds

func (s *server) cpu(ctx context.Context) cpu {
	return cpu{server: s.serverCPU(ctx), client: clientCPU()}
}

// serverCPU reads the figure that every Prometheus process collector has.
func (s *server) serverCPU(ctx context.Context) float64 {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(s.plan.Address, "/")+"/metrics", nil)
	if err != nil {
		return math.NaN()
	}
	response, err := s.http.Do(request)
	if err != nil {
		return math.NaN()
	}
	defer response.Body.Close()
	return readMetric(response.Body, "process_cpu_seconds_total")
}

func readMetric(r io.Reader, name string) float64 {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			if value, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
				return value
			}
		}
	}
	return math.NaN()
}

func clientCPU() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return math.NaN()
	}
	return (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
}

// microsPerCheck answers 0 where it is not known: NaN has no JSON form.
func microsPerCheck(seconds float64, checks uint64) float64 {
	if math.IsNaN(seconds) || seconds < 0 || checks == 0 {
		return 0
	}
	return seconds * 1e6 / float64(checks)
}
