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

// Call is an incoming call. Its context has the metadata, the peer and the values of earlier interceptors.
type Call struct {
	Method string // as in "/package.Service/Method"
	// Message is the request; nil for a stream, which is counted before its first message.
	Message any
}

// KeyFunc returns the key that a call counts for, as in "user:42". The error explains why there is none; its text is
// shown to the caller.
type KeyFunc func(ctx context.Context, call Call) (key string, err error)

// ErrNoKey is in the chain of OnError's error if a call has no key. Nothing was counted.
var ErrNoKey = inbound.ErrNoKey

// ClientIP returns the address of the caller, which proxies put into the metadata x-forwarded-for; see
// stinthttp.ClientIP. It panics if a network is malformed.
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

// Unary returns an interceptor that counts calls of one message each. It panics if the options name no Entry, because
// that would limit nothing.
func Unary(limits inbound.Checker, options ...Option) grpc.UnaryServerInterceptor {
	l := inbound.NewCalls[Call]("stintgrpc", limits, options)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		headers, err := decide(ctx, l, Call{info.FullMethod, message})
		_ = grpc.SetHeader(ctx, headers) // fails only for a call that is over
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

// Option configures what is counted, and what happens without a decision.
type Option func(*inbound.Calls[Call])

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
	return func(l *inbound.Calls[Call]) { l.CountParts("stintgrpc: EntryOf", policy, of) }
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

// FailClosed answers UNAVAILABLE if there is no decision in time. It is the default: the option makes it explicit.
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
