package stinthttp

import (
	"context"
	"net/http"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client/internal/inbound"
)

// Limit returns a middleware that counts each request before its handler runs. It panics if the options name no Entry,
// because that would limit nothing.
func Limit(limits Checker, options ...Option) func(http.Handler) http.Handler {
	l := &limiter{Limiter: inbound.Limiter[*http.Request]{Limits: limits, Within: inbound.Within}, denied: Denied,
		failed: Failed}
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

// limiter is the middleware. It is immutable.
type limiter struct {
	inbound.Limiter[*http.Request]

	denied func(http.ResponseWriter, *http.Request, *stintv1.Decision)
	failed func(http.ResponseWriter, *http.Request, error) // of a request that passes it gets no writer
}

type decisionKey struct{}

// DecisionOf returns the decision that let a request pass, or nil if it passed without one. A handler can settle it,
// for instance to give back the units of a request that failed.
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
