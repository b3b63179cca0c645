package stinthttp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// Waiter waits until a request may pass. *client.Client is one.
type Waiter interface {
	Wait(ctx context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error)
}

// ErrDenied is the error of a request that Outbound did not send, because no wait helps, or none within its time.
var ErrDenied = errors.New("stinthttp: the policy denies the request, and no wait in its time helps")

// Outbound returns a transport that keeps to the limits of the services that a program calls: before each request it
// waits until the policy allows one for the host, together with all other programs that ask. The key is the host in
// lower case and without a final dot, with its port unless that is the usual one of the scheme. A request that is
// denied, or has no decision, is not sent. The context of a request, or http.Client.Timeout, should bound the wait.
func Outbound(limits Waiter, policy string, next http.RoundTripper) http.RoundTripper {
	return outbound{limits, policy, next}
}

type outbound struct {
	limits Waiter
	policy string
	next   http.RoundTripper // sends what was allowed; never nil
}

func (o outbound) RoundTrip(r *http.Request) (*http.Response, error) {
	d, err := o.limits.Wait(r.Context(), client.Entry(o.policy, serviceOf(r.URL)))
	if err == nil && d.GetAllowed() {
		return o.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // which a RoundTripper always does
	}
	if err == nil {
		err = ErrDenied
	}
	return nil, err
}

// serviceOf returns the host of a URL in one spelling: all programs that call a service share its limit.
func serviceOf(u *url.URL) string {
	host := strings.TrimSuffix(strings.Replace(strings.ToLower(u.Host), ".:", ":", 1), ".") // of the root of names
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return strings.TrimSuffix(strings.TrimSuffix(host, port), ":")
}
