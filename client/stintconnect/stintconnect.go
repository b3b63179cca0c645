package stintconnect

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/stint-io/stint/client/internal/inbound"
	"github.com/stint-io/stint/internal/edge/clientaddr"
)

// Call is an incoming call.
type Call struct {
	Spec   connect.Spec
	Peer   connect.Peer
	Header http.Header
	// Message is the request; nil for a stream, which is counted before its first message.
	Message any
}

// KeyFunc returns the key that a call counts for, as in "user:42". ctx is that of the call, with the values of earlier
// interceptors. The error explains why there is none; its text is shown to the caller.
type KeyFunc func(ctx context.Context, call Call) (key string, err error)

// ErrNoKey is in the chain of OnError's error if a call has no key. Nothing was counted.
var ErrNoKey = inbound.ErrNoKey

// ClientIP returns the address of the caller; see stinthttp.ClientIP. It panics if a network is malformed.
func ClientIP(trustedProxies ...string) KeyFunc {
	proxies, err := clientaddr.ParseProxies(trustedProxies)
	if err != nil {
		panic("stintconnect: ClientIP: " + err.Error())
	}
	return func(_ context.Context, call Call) (string, error) {
		return proxies.Client(call.Peer.Addr, call.Header.Values("X-Forwarded-For"))
	}
}

// Limit returns an interceptor that counts calls on a server; in a client it does nothing. It panics if the options
// name no Entry, because that would limit nothing.
func Limit(limits inbound.Checker, options ...Option) connect.Interceptor {
	return &limiter{inbound.NewCalls[Call]("stintconnect: Limit", limits, options)}
}

// Option configures what Limit counts, and what it does without a decision.
type Option func(*inbound.Calls[Call])

// limiter is the interceptor.
type limiter struct{ *inbound.Calls[Call] }

// Entry counts calls by one policy under the key of each call. Several entries are counted together or not at all.
func Entry(policy string, key KeyFunc) Option {
	return func(l *inbound.Calls[Call]) { l.Count(policy, key) }
}

// Part is a named part of a key, as in Part{"account", accountOf}.
type Part struct {
	Name  string
	Value KeyFunc
}

// EntryOf is Entry with a key of several parts, as in "ip=ip:203.0.113.7|account=ann"; see stinthttp.EntryOf. Limiting
// panics if there are no parts, or two with one name.
func EntryOf(policy string, parts ...Part) Option {
	of := make([]inbound.Part[inbound.Incoming[Call]], len(parts))
	for i, p := range parts {
		of[i] = inbound.PartOf[Call](p.Name, p.Value)
	}
	return func(l *inbound.Calls[Call]) { l.CountParts("stintconnect: EntryOf", policy, of) }
}

// Namespace sets the namespace of the entries. The default is the client's.
func Namespace(name string) Option { return func(l *inbound.Calls[Call]) { l.Namespace = name } }

// Cost sets the units that a call spends with each entry, 1 to 2^40. The default is 1. An error is answered like a
// missing key.
func Cost(units func(context.Context, Call) (uint64, error)) Option {
	return func(l *inbound.Calls[Call]) {
		l.Cost = func(in inbound.Incoming[Call]) (uint64, error) { return units(in.Ctx, in.Call) }
	}
}

// Within sets how long a call waits for its decision. The default is 2 s.
func Within(d time.Duration) Option { return func(l *inbound.Calls[Call]) { l.Within = d } }

// FailClosed answers unavailable if there is no decision in time. It is the default: the option makes it explicit.
func FailClosed(l *inbound.Calls[Call]) { l.Open = false }

// FailOpen lets a call pass if there is no decision in time. It does not let through a call without a key, one that the
// cluster refuses, or one of a caller that hung up before the decision.
func FailOpen(l *inbound.Calls[Call]) { l.Open = true }

// WithoutIDs sends calls without idempotency ids. The nodes then repeat the denials of a policy with deny_cache without
// asking the owner, as is necessary in a flood. A call that may have been counted is not retried, and has no decision.
func WithoutIDs(l *inbound.Calls[Call]) { l.NoIDs = true }

// OnError receives each call without a key (ErrNoKey) or a decision (*client.Error), for logging: the caller does not
// see the cluster's error text.
func OnError(tell func(context.Context, error)) Option {
	return func(l *inbound.Calls[Call]) { l.Failed = tell }
}

// WrapUnary implements connect.Interceptor.
func (l *limiter) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if r.Spec().IsClient {
			return next(ctx, r)
		}
		headers, err := l.decide(ctx, Call{Spec: r.Spec(), Peer: r.Peer(), Header: r.Header(), Message: r.Any()})
		if err != nil {
			return nil, err
		}
		response, err := next(ctx, r)
		if err == nil {
			copyHeaders(response.Header(), headers)
		}
		return response, err
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (l *limiter) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (l *limiter) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		headers, err := l.decide(ctx, Call{Spec: conn.Spec(), Peer: conn.Peer(), Header: conn.RequestHeader()})
		if err != nil {
			return err
		}
		copyHeaders(conn.ResponseHeader(), headers)
		return next(ctx, conn)
	}
}

// codes of refusals.
var codes = [...]connect.Code{inbound.Denied: connect.CodeResourceExhausted, inbound.NoKey: connect.CodeInvalidArgument,
	inbound.Stranger: connect.CodePermissionDenied, inbound.NoAnswer: connect.CodeUnavailable,
	inbound.OurFault: connect.CodeInternal}

// decide returns the headers for the answer of a call that may pass, or the error for one that may not.
func (l *limiter) decide(ctx context.Context, call Call) (map[string]string, error) {
	d, refusal := l.Admit(ctx, call)
	if refusal == nil {
		return d.GetHeaders(), nil
	}
	err := connect.NewError(codes[refusal.Why], refusal.Err)
	copyHeaders(err.Meta(), d.GetHeaders())
	if d.GetRetryAfter() != nil { // else no wait helps
		if detail, detailErr := connect.NewErrorDetail(
			&errdetails.RetryInfo{RetryDelay: d.GetRetryAfter()}); detailErr == nil {
			err.AddDetail(detail)
		}
	}
	return nil, err
}

func copyHeaders(to http.Header, headers map[string]string) {
	for name, value := range headers {
		to.Set(name, value)
	}
}
