package client

import (
	"cmp"
	"context"
	"crypto/rand"
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
	"github.com/stint-io/stint/internal/holder"
	"github.com/stint-io/stint/internal/sleep"
)

// Client sends requests to one cluster. All methods may be called concurrently. A process needs only one: requests of
// many goroutines through one Client share calls, while each further Client has connections and batches of its own.
type Client struct {
	namespace string
	token     bool               // the client has a token
	seeds     []string           // Config.Addresses, without a slash at their ends
	timeout   time.Duration      // of a call without a deadline
	http      connect.HTTPClient // adds the token
	owners    owners
	leases    *holder.Holder[*stintv1.Decision] // nil: every check is sent
	own       *http.Transport                   // nil if the caller provides, and closes, Config.HTTP

	closing    context.Context    // ended by Close: bounds the background work and the batches, and no other call
	close      context.CancelFunc // ends closing
	goroutines sync.WaitGroup     // the background work, and the goroutines that send batches

	mu     sync.Mutex       // guards nodes and closed
	nodes  map[string]*node // by base URL; none is ever removed
	closed bool             // from then on nothing is added to goroutines, for which Close waits
}

// New makes a Client and starts its background work. It returns before any connection is made, so an unreachable
// address is no error. It fails if Addresses is empty, if one of them is no base URL or would get the Token in
// plaintext, if Timeout is below 0, or if both HTTP and TLS are set. The caller must call Close.
func New(c Config) (*Client, error) {
	if len(c.Addresses) == 0 {
		return nil, errors.New("client: no address: give the base URL of one node at least, " +
			"as in http://127.0.0.1:7400")
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("client: the timeout %v is below 0: leave it out for %v", c.Timeout, defaultTimeout)
	}
	if c.HTTP != nil && c.TLS != nil {
		return nil, errors.New("client: both HTTP and TLS are given: leave TLS out, " +
			"and give it to the transport of HTTP")
	}
	client := &Client{namespace: c.Namespace, token: c.Token != "", http: c.HTTP,
		timeout: cmp.Or(c.Timeout, defaultTimeout), nodes: make(map[string]*node)}
	for _, address := range c.Addresses {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("client: %q is no base URL, as http://127.0.0.1:7400 is", address)
		}
		if client.token && !maySendTokenTo(u) {
			return nil, fmt.Errorf("client: the token is not sent in the clear to %s: "+
				"use https://, or an address of this machine", address)
		}
		client.seeds = append(client.seeds, strings.TrimSuffix(address, "/"))
	}
	if client.http == nil {
		client.own = newTransport(c.TLS)
		//mutant:token-follows-a-redirect
		client.http = &http.Client{Transport: client.own, CheckRedirect: noRedirect}
	}
	if client.token {
		client.http = bearer{c.Token, client.http}
	}
	client.owners.asked, client.owners.shunned = make(chan struct{}, 1), make(map[string]time.Time)
	client.closing, client.close = context.WithCancel(context.Background())
	client.goroutines.Go(client.keepOwners)
	if c.Leases {
		client.leases = newLeases(client, holder.MachineClock())
	}
	return client, nil
}

// Close returns all leases, within 2 s, and stops the background work and waits for it. Checks under way end with an
// error: one that was sent may have been counted (MaybeApplied). It may be called more than once.
func (c *Client) Close() {
	if c.leases != nil {
		c.leases.Close() //mutant:closed-client-keeps-its-leases
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.goroutines.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Entry returns a request to spend one unit on one key by one policy. The caller may add to it: a Cost, a Tier or a
// second entry, an IdempotencyId, a Mode.
func Entry(policy, key string) *stintv1.CheckRequest {
	return &stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: policy, Key: key}}}
}

// Check decides a request and counts it: all its entries or none. A nil error means that the cluster has decided, and
// that the decision is on the disks of a majority: Decision.Allowed is the decision, Decision.RetryAfter how long a
// denied caller should wait, and Decision.Limits the state of each limit after it.
//
// With Config.Leases a lease may answer, which was committed before: the decision says so (Leased). Its limits are
// those of the lease's grant, and callers share it: it must not be changed.
//
// Check batches concurrent checks, and it retries until ctx ends (see the package comment). The error is an *Error. The
// caller must not change the request before Check returns, nor afterwards if the error says that the request may have
// been applied.
func (c *Client) Check(ctx context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error) {
	if d := c.fromLease(ctx, r); d != nil {
		return d, nil
	}
	if c.namespace != "" && r.Namespace == "" { // else nothing is copied
		r = proto.CloneOf(r)
		r.Namespace = c.namespace
	}
	var d *stintv1.Decision
	err := c.repeat(ctx, r, r.IdempotencyId != "", func(ctx context.Context, n *node) *Error {
		result := n.queue.do(ctx, c, n, r)
		if d = result.GetDecision(); d != nil {
			return nil
		}
		f := result.GetFailure()
		return &Error{Code: f.GetCode(), Message: f.GetMessage(), MaybeApplied: f.GetMaybeApplied()}
	})
	return d, err
}

// Wait checks a request until it is allowed, as a worker does that may only go so fast: it sleeps as long as each
// denial says. It returns a denial if no wait helps, or if ctx ends before the wait is over. It draws an id for each
// check; the request must have none, because its denial would be repeated. The error is an *Error.
func (c *Client) Wait(ctx context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error) {
	if r.IdempotencyId != "" {
		return nil, &Error{Code: connect.CodeInvalidArgument.String(),
			Message: "idempotency_id: Wait draws one for each check"}
	}
	for {
		r = proto.CloneOf(r)
		r.IdempotencyId = rand.Text()
		d, err := c.Check(ctx, r)
		if err != nil || d.Allowed || d.RetryAfter == nil {
			return d, err
		}
		pause := d.RetryAfter.AsDuration()
		if ends, bounded := ctx.Deadline(); bounded && time.Until(ends) < pause || !sleep.For(ctx, pause) {
			return d, nil
		}
	}
}

// CheckBatch makes independent checks concurrently and returns one result for each, in their order: a Decision or a
// Failure. Each is handled as by Check, so one of them may be denied or fail while the others are counted. It returns
// when the last one has its result.
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

// Reserve takes units now, as a hold that Settle commits, cancels or extends later; an unsettled hold ends at its
// expiry according to the policy (on_expire). A granted Decision has the HoldId and the instant at which the hold
// expires. Reserve retries like Check: without an id in its check, only while the request was certainly not counted.
// The error is an *Error.
func (c *Client) Reserve(ctx context.Context, r *stintv1.ReserveRequest) (*stintv1.Decision, error) {
	if r = proto.CloneOf(r); r.GetCheck() != nil {
		r.Check.Namespace = cmp.Or(r.Check.Namespace, c.namespace)
	}
	response, err := call(ctx, c, r.GetCheck(), r.GetCheck().GetIdempotencyId() != "", (*node).Reserve, r)
	return response.GetDecision(), err
}

// Settle finishes a hold (commit, cancel, success, failed), prolongs it (extend), or refunds a decision (cancel by its
// DecisionId). A hold ends once: the same settlement again gets the same answer, a different one is an *Error with the
// code "failed_precondition".
//
// Settle retries until ctx ends, because a repetition does nothing; an Extend without an id only while it was certainly
// not applied. The error is an *Error.
func (c *Client) Settle(ctx context.Context, r *stintv1.SettleRequest) (*stintv1.Decision, error) {
	countsOnce := r.GetExtend() == nil || r.IdempotencyId != ""
	response, err := call(ctx, c, nil, countsOnce, (*node).Settle, r)
	return response.GetDecision(), err
}

// Get returns the state of keys and changes nothing: used and remaining units, blocks and open holds. The answer
// includes everything that was answered to any client before the call (it is linearizable), unless the request accepts
// a stale one. It retries until ctx ends. The error is an *Error.
func (c *Client) Get(ctx context.Context, r *stintv1.GetRequest) (*stintv1.GetResponse, error) {
	r = proto.CloneOf(r)
	r.Namespace = cmp.Or(r.Namespace, c.namespace)
	return call(ctx, c, nil, true, (*node).Get, r)
}
