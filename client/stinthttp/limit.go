package stinthttp

import (
	"context"
	"net/http"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client/internal/inbound"
)

// Limit returns a middleware that counts each request before its handler runs. It panics if the options name no Entry, because
// that would limit nothing.
func Limit(limits Checker, options ...Option) func(http.Handler) http.Handler {
	l := &limiter{Limiter: inbound.Limiter[*http.Request]{Limits: limits, Within: inbound.Within}, denied: Denied, failed: Failed}
	for _, o := range options {
		o(l)
	}
	if len(l.Entries) == 0 {
		panic("stinthttp: Limit: no Entry says what to count")
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(w, r, next) })
	}
}

// Checker decides. *client.Client is one.
type Checker = inbound.Checker

// Option says what Limit counts, and how it answers.
type Option func(*limiter)

// limiter is the middleware. It never changes once it is made.
type limiter struct {
	inbound.Limiter[*http.Request]

	denied func(http.ResponseWriter, *http.Request, *stintv1.Decision)
	failed func(http.ResponseWriter, *http.Request, error)
}

// Entry counts requests by one policy for the key that each has. Several entries are counted together or not at all.
func Entry(policy string, key KeyFunc) Option {
	return func(l *limiter) {
		l.Entries = append(l.Entries, inbound.Entry[*http.Request]{Policy: policy, Key: key})
	}
}

// Part is a named part of a key, as in Part{"account", accountOf}.
type Part struct {
	Name  string
	Value KeyFunc
}

// EntryOf is Entry with a key of several parts, as in "ip=ip:203.0.113.7|account=ann". Their order counts. Whatever strangers write,
// two different lists of values have different keys, and none names a parent; the clients in JavaScript and Python make the same keys
// of the same parts. A part without a value is a missing key. EntryOf panics if there are no parts, or two of one name.
func EntryOf(policy string, parts ...Part) Option {
	of := make([]inbound.Part[*http.Request], len(parts))
	for i, p := range parts {
		of[i] = inbound.Part[*http.Request]{Name: p.Name, Value: p.Value}
	}
	inbound.CheckParts("stinthttp: EntryOf", policy, of)
	return func(l *limiter) {
		l.Entries = append(l.Entries, inbound.Entry[*http.Request]{Policy: policy, Parts: of})
	}
}

// Namespace is that of the entries. Without it they have the client's.
func Namespace(name string) Option { return func(l *limiter) { l.Namespace = name } }

// Cost says how many units a request spends with each entry, 1 to 2^40. Without it, 1. An error is answered as a missing key is.
func Cost(units func(*http.Request) (uint64, error)) Option {
	return func(l *limiter) { l.Cost = units }
}

// Within is how long a request waits for its decision; 2 s without it.
func Within(d time.Duration) Option { return func(l *limiter) { l.Within = d } }

// FailClosed answers 503 if there is no decision in time. It is what happens without it, too: the option says it to the reader.
func FailClosed(l *limiter) { l.Open = false }

// FailOpen lets a request pass if there is no decision in time, with the header "Stint-Failed: open" in its response. It does not
// open for a request that has no key, for one that the cluster refuses, which includes new keys without room (max_keys), nor for a
// sender who hung up before the decision.
func FailOpen(l *limiter) { l.Open = true }

// OnDenied answers denied requests in place of Denied. The headers of the policies are set when it is called; the status is not
// written.
func OnDenied(answer func(http.ResponseWriter, *http.Request, *stintv1.Decision)) Option {
	return func(l *limiter) { l.denied = answer }
}

// WithoutIDs sends requests without idempotency ids. The denials of a policy with deny_cache are then repeated by the nodes without
// asking the owner, which a flood needs. A request that may have been counted is not asked again, and has no decision.
func WithoutIDs(l *limiter) { l.NoIDs = true }

// OnError answers requests that have no key (ErrNoKey) or no decision (*client.Error), in place of Failed. With FailOpen it is
// also called for each request that passes without a decision, to be logged: w is nil then.
func OnError(answer func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(l *limiter) { l.failed = answer }
}

type decisionKey struct{}

// DecisionOf returns the decision by which a request passed; nil if it did so without one. A handler can settle it, for
// instance to give back what a request that failed has spent.
func DecisionOf(ctx context.Context) *stintv1.Decision {
	d, _ := ctx.Value(decisionKey{}).(*stintv1.Decision)
	return d
}

func (l *limiter) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	d, passes, err := l.Decide(r.Context(), r)
	switch {
	case passes:
		l.failed(nil, r, err)
		w.Header().Set("Stint-Failed", "open")
		next.ServeHTTP(w, r)
	case err != nil:
		l.failed(w, r, err)
	default:
		for name, value := range d.GetHeaders() {
			w.Header().Set(name, value)
			w.Header().Add("Access-Control-Expose-Headers", name) // for scripts of other origins
		}
		if !d.GetAllowed() {
			l.denied(w, r, d)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), decisionKey{}, d)))
	}
}
