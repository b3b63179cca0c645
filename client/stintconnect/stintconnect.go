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

// Call is a call that came in.
type Call struct {
	Spec   connect.Spec
	Peer   connect.Peer
	Header http.Header
	// Message is what the caller sent; nil for a stream, which is counted before its first message.
	Message any
}

// KeyFunc names whom a call counts for, as in "user:42". ctx is that of the call, with what earlier interceptors put there. An
// error says why there is no key; its text is shown to the caller.
type KeyFunc func(ctx context.Context, call Call) (key string, err error)

// ErrNoKey is in the chain of what OnError gets if a call has no key. Nothing was counted.
var ErrNoKey = inbound.ErrNoKey

// ClientIP returns the address of the caller; see stinthttp.ClientIP. It panics if a network is none.
func ClientIP(trustedProxies ...string) KeyFunc {
	proxies, err := clientaddr.ParseProxies(trustedProxies)
	if err != nil {
		panic("stintconnect: ClientIP: " + err.Error())
	}
	return func(_ context.Context, call Call) (string, error) {
		return proxies.Client(call.Peer.Addr, call.Header.Values("X-Forwarded-For"))
	}
}

// Limit returns an interceptor that counts calls on a server; in a client it does nothing. It panics if the options name no Entry,
// because that would limit nothing.
func Limit(limits inbound.Checker, options ...Option) connect.Interceptor {
	return &limiter{inbound.NewCalls[Call]("stintconnect: Limit", limits, options)}
}

// Option says what Limit counts, and what it does without a decision.
type Option func(*inbound.Calls[Call])

// limiter is the interceptor.
type limiter struct{ *inbound.Calls[Call] }

// Entry counts calls by one policy for the key that each has. Several entries are counted together or not at all.
func Entry(policy string, key KeyFunc) Option {
	return func(l *inbound.Calls[Call]) { l.Count(policy, key) }
}

// Part is a named part of a key, as in Part{"account", accountOf}.
type Part struct {
	Name  string
	Value KeyFunc
}

// EntryOf is Entry with a key of several parts, as in "ip=ip:203.0.113.7|account=ann"; see stinthttp.EntryOf. Limiting panics if there
// are no parts, or two of one name.
func EntryOf(policy string, parts ...Part) Option {
	of := make([]inbound.Part[inbound.Incoming[Call]], len(parts))
	for i, p := range parts {
		of[i] = inbound.PartOf[Call](p.Name, p.Value)
	}
	return func(l *inbound.Calls[Call]) { l.CountParts("stintconnect: EntryOf", policy, of) }
}

// Namespace is that of the entries. Without it they have the client's.
func Namespace(name string) Option { return func(l *inbound.Calls[Call]) { l.Namespace = name } }

// Cost says how many units a call spends with each entry, 1 to 2^40. Without it, 1. An error is answered as a missing key is.
func Cost(units func(context.Context, Call) (uint64, error)) Option {
	return func(l *inbound.Calls[Call]) {
		l.Cost = func(in inbound.Incoming[Call]) (uint64, error) { return units(in.Ctx, in.Call) }
	}
}

// Within is how long a call waits for its decision; 2 s without it.
func Within(d time.Duration) Option { return func(l *inbound.Calls[Call]) { l.Within = d } }

// FailClosed answers unavailable if there is no decision in time. It is what happens without it, too: the option says it to the
// reader.
func FailClosed(l *inbound.Calls[Call]) { l.Open = false }

// FailOpen lets a call pass if there is no decision in time. It does not open for a call that has no key, for one that the
// cluster refuses, nor for a caller who hung up before the decision.
func FailOpen(l *inbound.Calls[Call]) { l.Open = true }

// WithoutIDs sends calls without idempotency ids. The denials of a policy with deny_cache are then repeated by the nodes without
// asking the owner, which a flood needs. A call that may have been counted is not asked again, and has no decision.
func WithoutIDs(l *inbound.Calls[Call]) { l.NoIDs = true }

// OnError is told of each call without a key (ErrNoKey) or a decision (*client.Error), to log it: the caller does not see what the
// cluster said.
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
	inbound.Stranger: connect.CodePermissionDenied, inbound.NoAnswer: connect.CodeUnavailable, inbound.OurFault: connect.CodeInternal}

// decide returns the headers for the answer of a call that may pass, or the error for one that may not.
func (l *limiter) decide(ctx context.Context, call Call) (map[string]string, error) {
	d, refusal := l.Admit(ctx, call)
	if refusal == nil {
		return d.GetHeaders(), nil
	}
	err := connect.NewError(codes[refusal.Why], refusal.Err)
	copyHeaders(err.Meta(), d.GetHeaders())
	if d.GetRetryAfter() != nil { // else no wait helps
		if detail, detailErr := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: d.GetRetryAfter()}); detailErr == nil {
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
