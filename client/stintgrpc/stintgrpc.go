package stintgrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/stint-io/stint/client/internal/inbound"
	"github.com/stint-io/stint/internal/edge/clientaddr"
)

// Call is a call that came in. Its context has the metadata, the peer and what earlier interceptors put there.
type Call struct {
	Method string // as in "/package.Service/Method"
	// Message is what the caller sent; nil for a stream, which is counted before its first message.
	Message any
}

// KeyFunc names whom a call counts for, as in "user:42". An error says why there is no key; its text is shown to the caller.
type KeyFunc func(ctx context.Context, call Call) (key string, err error)

// ErrNoKey is in the chain of what OnError gets if a call has no key. Nothing was counted.
var ErrNoKey = inbound.ErrNoKey

// ClientIP returns the address of the caller, which proxies tell in the metadata x-forwarded-for; see stinthttp.ClientIP. It panics
// if a network is none.
func ClientIP(trustedProxies ...string) KeyFunc {
	proxies, err := clientaddr.ParseProxies(trustedProxies)
	if err != nil {
		panic("stintgrpc: ClientIP: " + err.Error())
	}
	return func(ctx context.Context, _ Call) (string, error) {
		otherEnd, ok := peer.FromContext(ctx)
		if !ok {
			return "", errors.New("the connection has no address")
		}
		return proxies.Client(otherEnd.Addr.String(), metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"))
	}
}

// Unary returns an interceptor that counts calls of one message each. It panics if the options name no Entry, because that would
// limit nothing.
func Unary(limits inbound.Checker, options ...Option) grpc.UnaryServerInterceptor {
	l := inbound.NewCalls[Call]("stintgrpc", limits, options)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		headers, err := decide(ctx, l, Call{info.FullMethod, message})
		_ = grpc.SetHeader(ctx, headers) // it fails only for a call that is over
		if err != nil {
			return nil, err
		}
		return next(ctx, message)
	}
}

// Stream returns an interceptor that counts streams when they open. It panics if the options name no Entry.
func Stream(limits inbound.Checker, options ...Option) grpc.StreamServerInterceptor {
	l := inbound.NewCalls[Call]("stintgrpc", limits, options)
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		headers, err := decide(stream.Context(), l, Call{Method: info.FullMethod})
		_ = stream.SetHeader(headers)
		if err != nil {
			return err
		}
		return next(server, stream)
	}
}

// Option says what is counted, and what happens without a decision.
type Option func(*inbound.Calls[Call])

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
	return func(l *inbound.Calls[Call]) { l.CountParts("stintgrpc: EntryOf", policy, of) }
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

// FailClosed answers UNAVAILABLE if there is no decision in time. It is what happens without it, too: the option says it to the
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

// statuses are the codes of refusals.
var statuses = [...]codes.Code{inbound.Denied: codes.ResourceExhausted, inbound.NoKey: codes.InvalidArgument,
	inbound.Stranger: codes.PermissionDenied, inbound.NoAnswer: codes.Unavailable, inbound.OurFault: codes.Internal}

// decide returns the headers for the answer of a call, and an error if it may not pass.
func decide(ctx context.Context, l *inbound.Calls[Call], call Call) (metadata.MD, error) {
	d, refusal := l.Admit(ctx, call)
	if refusal == nil {
		return metadata.New(d.GetHeaders()), nil
	}
	refused := status.New(statuses[refusal.Why], refusal.Err.Error())
	if d.GetRetryAfter() != nil { // else no wait helps
		if detailed, err := refused.WithDetails(&errdetails.RetryInfo{RetryDelay: d.GetRetryAfter()}); err == nil {
			refused = detailed
		}
	}
	return metadata.New(d.GetHeaders()), refused.Err()
}
