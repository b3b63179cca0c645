package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// Config says where the cluster is.
type Config struct {
	// Addresses are base URLs of some nodes, as in http://127.0.0.1:7400. The client learns the others from them.
	Addresses []string
	// Namespace of requests that name none; "": the server's default.
	Namespace string
	// HTTP carries the calls; nil: HTTP/2, without TLS for http:// addresses, one connection to a node.
	HTTP connect.HTTPClient
}

// Client asks a cluster. All methods may be called by any number of goroutines.
type Client struct {
	namespace string
	seeds     []string
	http      connect.HTTPClient
	owners    owners
	own       *http.Transport // nil: Config.HTTP is not ours to close

	closing    context.Context
	close      context.CancelFunc
	goroutines sync.WaitGroup

	mu     sync.Mutex
	nodes  map[string]*node // by base URL
	closed bool
}

// node is one address of the cluster, with the calls that are gathered for it.
type node struct {
	url    string
	limits stintv1connect.LimitServiceClient
	lane   lane
}

// New makes a Client. It connects when it is first asked. Close must be called.
func New(c Config) (*Client, error) {
	if len(c.Addresses) == 0 {
		return nil, errors.New("client: no address: give the base URL of one node at least, as in http://127.0.0.1:7400")
	}
	client := &Client{namespace: c.Namespace, http: c.HTTP, nodes: make(map[string]*node)}
	for _, address := range c.Addresses {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("client: %q is no base URL, as http://127.0.0.1:7400 is", address)
		}
		client.seeds = append(client.seeds, strings.TrimSuffix(address, "/"))
	}
	if client.http == nil {
		client.own = newTransport()
		client.http = &http.Client{Transport: client.own}
	}
	client.owners.asked = make(chan struct{}, 1)
	client.closing, client.close = context.WithCancel(context.Background())
	client.goroutines.Go(client.keepOwners)
	return client, nil
}

func newTransport() *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: &protocols, DisableCompression: true, IdleConnTimeout: 5 * time.Minute}
}

// Close ends what the client does in the background and waits for it. Calls under way end with an error.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.goroutines.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Entry names one policy on one key.
func Entry(policy, key string) *stintv1.CheckRequest {
	return &stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: policy, Key: key}}}
}

// Check decides and counts: all entries of the request or none. What many goroutines check at the same time travels
// together. An error is an *Error. The request must not be changed until Check returns, nor afterwards if the error
// says that it may have been applied.
func (c *Client) Check(ctx context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error) {
	if c.namespace != "" && r.Namespace == "" {
		r = proto.CloneOf(r)
		r.Namespace = c.namespace
	}
	for attempt := 0; ; attempt++ {
		n, err := c.route(r, attempt)
		if err != nil {
			return nil, err
		}
		result := n.lane.do(ctx, c, n, r)
		if d := result.GetDecision(); d != nil {
			return d, nil
		}
		failure := &Error{Code: result.GetFailure().GetCode(), Message: result.GetFailure().GetMessage(),
			MaybeApplied: result.GetFailure().GetMaybeApplied()}
		if !failure.mayAskAgain(r) || !wait(ctx, attempt) {
			return nil, failure
		}
		c.owners.ask()
	}
}

// CheckBatch makes many independent checks, and returns one result for each, in their order. Each is treated as Check
// treats it.
func (c *Client) CheckBatch(ctx context.Context, requests []*stintv1.CheckRequest) []*stintv1.Result {
	results := make([]*stintv1.Result, len(requests))
	var group sync.WaitGroup
	for i, r := range requests {
		group.Go(func() {
			d, err := c.Check(ctx, r)
			results[i] = &stintv1.Result{Result: &stintv1.Result_Decision{Decision: d}}
			var failure *Error
			if errors.As(err, &failure) {
				results[i].Result = &stintv1.Result_Failure{Failure: &stintv1.Failure{Code: failure.Code,
					Message: failure.Message, MaybeApplied: failure.MaybeApplied}}
			}
		})
	}
	group.Wait()
	return results
}

// Reserve holds units now, to be settled later. It is asked once.
func (c *Client) Reserve(ctx context.Context, r *stintv1.ReserveRequest) (*stintv1.Decision, error) {
	if c.namespace != "" && r.GetCheck() != nil && r.Check.Namespace == "" {
		r = proto.CloneOf(r)
		r.Check.Namespace = c.namespace
	}
	n, err := c.route(r.GetCheck(), 0)
	if err != nil {
		return nil, err
	}
	response, err := once(ctx, n.limits.Reserve, r)
	return response.GetDecision(), err
}

// Settle finishes a hold, or refunds a decision. The same again gets the same answer.
func (c *Client) Settle(ctx context.Context, r *stintv1.SettleRequest) (*stintv1.Decision, error) {
	n, err := c.route(nil, 0)
	if err != nil {
		return nil, err
	}
	response, err := once(ctx, n.limits.Settle, r)
	return response.GetDecision(), err
}

// Get tells the state of keys and changes nothing.
func (c *Client) Get(ctx context.Context, r *stintv1.GetRequest) (*stintv1.GetResponse, error) {
	if c.namespace != "" && r.Namespace == "" {
		r = proto.CloneOf(r)
		r.Namespace = c.namespace
	}
	n, err := c.route(nil, 0)
	if err != nil {
		return nil, err
	}
	return once(ctx, n.limits.Get, r)
}

// once asks a node one time.
func once[Req, Res any](
	ctx context.Context, ask func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), r *Req,
) (*Res, error) {
	response, err := ask(ctx, connect.NewRequest(r))
	if err != nil {
		return nil, failed(err)
	}
	return response.Msg, nil
}

// node returns what is known of an address.
func (c *Client) node(url string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[url]
	if n == nil {
		n = &node{url: url, limits: stintv1connect.NewLimitServiceClient(c.http, url)}
		c.nodes[url] = n
	}
	return n
}

// wait lets a while pass before the next attempt; false when ctx ends before.
func wait(ctx context.Context, attempt int) bool {
	pause := time.NewTimer(min(pauseLeast<<min(attempt, 8), pauseMost))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	pauseLeast = 10 * time.Millisecond
	pauseMost  = 200 * time.Millisecond
)
