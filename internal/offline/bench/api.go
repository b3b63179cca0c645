package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	stint "github.com/stint-io/stint/client"
)

// API is the port of the protocols of stint's API.
type API struct {
	plan      Plan
	http      *http.Client                      // for all but the load
	limits    stintv1connect.LimitServiceClient // of the first node that accepted a connection; for all but the load
	rules     []rule                            // limits of the policy
	unbounded error                             // why the policy cannot be audited; nil if it can
	// loaded are shared by the callers: one to each node, or for each connection; nil for protocol client.
	loaded []stintv1connect.LimitServiceClient
	shared *stint.Client // of all callers of protocol client; nil for the others
}

// NewAPI opens the port of a valid plan. It fails if no server answers or the server does not know the policy. Without
// a policy it asks no server, and its audit says so.
func NewAPI(ctx context.Context, p Plan) (*API, error) {
	p = p.WithDefaults()
	a := &API{plan: p, http: &http.Client{Timeout: p.Timeout, Transport: Proving(p.Token, newTransport(p, false))}}
	if err := a.readPolicy(ctx); err != nil {
		return nil, err
	}
	switch p.Protocol {
	case Client:
		var err error
		if a.shared, err = stint.New(stint.Config{Addresses: p.Addresses, TLS: p.TLS, Token: p.Token}); err != nil {
			return nil, err
		}
	case GRPC, Stream:
		for i := range p.Connections { // a separate transport makes a separate connection
			client := &http.Client{Transport: Proving(p.Token, newTransport(p, true))}
			a.loaded = append(a.loaded, stintv1connect.NewLimitServiceClient(client, p.grpcURL(i), connect.WithGRPC()))
		}
	default:
		client := &http.Client{Transport: Proving(p.Token, newTransport(p, false))}
		for _, address := range p.Addresses {
			var options []connect.ClientOption
			if p.Protocol == JSON {
				options = append(options, connect.WithProtoJSON())
			}
			a.loaded = append(a.loaded, stintv1connect.NewLimitServiceClient(client, address, options...))
		}
	}
	return a, nil
}

// newTransport returns a transport of HTTP/2 alone, or one of HTTP/1.1 that keeps a connection for each caller.
func newTransport(p Plan, http2 bool) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = p.TLS.Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, p.Callers
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	return transport
}

// Proving returns a transport that adds a token to each request, if there is one.
func Proving(token string, transport *http.Transport) http.RoundTripper {
	return proves{token, transport}
}

type proves struct {
	token string
	*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (p proves) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	return p.Transport.RoundTrip(r)
}

// readPolicy reads the policy's limits from the first node that does not refuse the connection.
func (a *API) readPolicy(ctx context.Context) error {
	if a.plan.Policy == "" {
		a.unbounded = errors.New("the work has no policy")
		return nil
	}
	var (
		answer  *connect.Response[stintv1.ListPoliciesResponse]
		address string
		err     error
	)
	for _, address = range a.plan.Addresses {
		client := stintv1connect.NewPolicyServiceClient(a.http, address)
		answer, err = client.List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("reading the policies of %s: %w", address, err)
	}
	a.limits = stintv1connect.NewLimitServiceClient(a.http, address)
	for _, p := range answer.Msg.Policies {
		if p.Name == a.plan.Policy {
			a.rules, a.unbounded = rulesOf(p, a.plan.Tier)
			return nil
		}
	}
	return fmt.Errorf("%s has no policy %q", address, a.plan.Policy)
}

// Caller implements Port.
func (a *API) Caller(number int) Caller { return &apiCaller{api: a, at: number} }

// Connections implements Port. The Go client keeps one connection to each node.
func (a *API) Connections() int {
	switch a.plan.Protocol {
	case Client:
		return len(a.plan.Addresses)
	case GRPC, Stream:
		return len(a.loaded)
	}
	return a.plan.Callers
}

// Prepare implements Port. It spends all units of the drained keys, so that the run finds them denied.
func (a *API) Prepare(ctx context.Context, l *Ledger) error {
	units := atRest(a.rules)
	if a.plan.drainedKeys() > 0 && (units == 0 || units > costMax) {
		return fmt.Errorf("denied: policy %s has no limit that one check could drain", a.plan.Policy)
	}
	p := a.plan
	p.Cost, p.Entries = units, 1
	for first := p.Keys; first < len(l.Accounts); first += batchMax {
		request := &stintv1.CheckBatchRequest{}
		for key := first; key < min(first+batchMax, len(l.Accounts)); key++ {
			request.Checks = append(request.Checks, p.request(uint32(key)))
		}
		answer, err := a.limits.CheckBatch(ctx, connect.NewRequest(request))
		if err != nil {
			return fmt.Errorf("draining keys for the denied share: %w", err)
		}
		for i, result := range answer.Msg.Results {
			if !result.GetDecision().GetAllowed() {
				return fmt.Errorf("draining keys for the denied share: key %s was not at rest: "+
					"choose a fresh key prefix", p.KeyName(uint32(first+i)))
			}
			l.enter(uint32(first+i), Allowed, units)
		}
	}
	return nil
}

// Figures implements Port: it adds up the metrics of all nodes. A node that does not answer adds nothing.
func (a *API) Figures(ctx context.Context) map[string]float64 {
	sums := map[string]float64{}
	for _, address := range a.plan.Addresses {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(address, "/")+"/metrics", nil)
		if err != nil {
			continue
		}
		if response, err := a.http.Do(request); err == nil {
			readMetrics(response.Body, sums)
			response.Body.Close()
		}
	}
	return sums
}

// readMetrics adds the value of every series to the sum of its name, regardless of labels.
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

// Judge implements Port.
func (a *API) Judge(l *Ledger, s Span) (Verdict, error) {
	if a.unbounded != nil {
		return NotAudited(l, a.unbounded.Error()), nil
	}
	return audit{a.plan, a.rules, s}.judge(l), nil
}

// Close implements Port.
func (a *API) Close() {
	if a.shared != nil {
		a.shared.Close()
	}
}
