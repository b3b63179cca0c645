package bench

import (
	"bufio"
	"context"
	"errors"
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

// server makes a run's requests other than its load: for the policy, the draining of keys and the processor time.
type server struct {
	plan   Plan
	http   *http.Client
	limits stintv1connect.LimitServiceClient
}

func newServer(p Plan) *server {
	transport := http.DefaultTransport
	if p.TLS != nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.TLSClientConfig = p.TLS.Clone()
		transport = own
	}
	s := &server{plan: p, http: &http.Client{Timeout: p.Timeout, Transport: proves{p.Token, transport}}}
	if len(p.Addresses) > 0 {
		s.limits = stintv1connect.NewLimitServiceClient(s.http, p.Addresses[0])
	}
	return s
}

// proves sends a token along, if there is one.
type proves struct {
	token string
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p proves) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	return p.RoundTripper.RoundTrip(r)
}

// rules reads the policy's limits. unbounded says why there can be no audit; err ends the run.
func (s *server) rules(ctx context.Context) (rules []rule, unbounded, err error) {
	switch {
	case s.plan.asksPolicy():
	case s.plan.Work == Bucket && !s.plan.IsRedis:
		return []rule{{atRest: bucketQuota, quota: bucketQuota, refill: bucketQuota, period: bucketRefillEach}}, nil, nil
	default:
		return nil, errors.New("a script of Redis has no policy"), nil
	}
	answer, address, err := s.list(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the policies of %s: %w", address, err)
	}
	s.limits = stintv1connect.NewLimitServiceClient(s.http, address)
	for _, p := range answer.Msg.Policies {
		if p.Name == s.plan.Policy {
			rules, unbounded = rulesOf(p, s.plan.Tier)
			return rules, unbounded, nil
		}
	}
	return nil, nil, fmt.Errorf("%s has no policy %q", address, s.plan.Policy)
}

// list asks the first node that does not refuse the connection.
func (s *server) list(ctx context.Context) (answer *connect.Response[stintv1.ListPoliciesResponse], address string, err error) {
	for _, address = range s.plan.Addresses {
		client := stintv1connect.NewPolicyServiceClient(s.http, address)
		answer, err = client.List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return answer, address, err
}

// drain spends all units of the drained keys, so that the run finds them denied, and enters them into the ledger.
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
			Entries: []*stintv1.Entry{{Policy: s.plan.Policy, Key: s.plan.keyName(uint32(key)),
				Cost: &units, Tier: s.plan.Tier}}})
	}
	answer, err := s.limits.CheckBatch(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	for i, result := range answer.Msg.Results {
		if !result.GetDecision().GetAllowed() {
			return fmt.Errorf("key %s was not at rest: choose a fresh key prefix", s.plan.keyName(uint32(first+i)))
		}
		l.enter(uint32(first+i), allowed, units)
	}
	return nil
}

// figures are the values of the nodes' counters and processor clocks. NaN: unknown.
type figures struct {
	serverCPU, clientCPU float64 // seconds
	forwarded, frames    float64 // requests forwarded to their owner, and the frames that carried them
	decided, batches     float64
}

func (f figures) since(before figures) figures {
	return figures{f.serverCPU - before.serverCPU, f.clientCPU - before.clientCPU, f.forwarded - before.forwarded,
		f.frames - before.frames, f.decided - before.decided, f.batches - before.batches}
}

// figures adds up the counters of all nodes.
func (s *server) figures(ctx context.Context) figures {
	sums := map[string]float64{}
	for _, address := range s.plan.Addresses {
		s.addMetrics(ctx, address, sums)
	}
	value := func(name string) float64 {
		if sum, ok := sums[name]; ok {
			return sum
		}
		return math.NaN()
	}
	return figures{serverCPU: value("process_cpu_seconds_total"), clientCPU: clientCPU(),
		forwarded: value("stint_hop_requests_total"), frames: value("stint_hop_frames_total"),
		decided: value("stint_batch_requests_sum"), batches: value("stint_batch_requests_count")}
}

// addMetrics reads one node's metrics. A node that does not answer adds nothing.
func (s *server) addMetrics(ctx context.Context, address string, sums map[string]float64) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(address, "/")+"/metrics", nil)
	if err != nil {
		return
	}
	response, err := s.http.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	readMetrics(response.Body, sums)
}

// readMetrics adds the value of every series to the sum of its name, whatever its labels are.
func readMetrics(r io.Reader, sums map[string]float64) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		end, last := strings.IndexAny(line, "{ "), strings.LastIndexByte(line, ' ')
		if end <= 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[last+1:], 64); err == nil {
			sums[line[:end]] += value
		}
	}
}

func clientCPU() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return math.NaN()
	}
	return (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
}

// ratio returns 0 where there is none: NaN has no JSON form.
func ratio(part, whole float64) float64 {
	if math.IsNaN(part) || math.IsNaN(whole) || whole <= 0 || part < 0 {
		return 0
	}
	return part / whole
}

// microsPerCheck returns 0 where it is unknown: NaN has no JSON form.
func microsPerCheck(seconds float64, checks uint64) float64 {
	if math.IsNaN(seconds) || seconds < 0 || checks == 0 {
		return 0
	}
	return seconds * 1e6 / float64(checks)
}
