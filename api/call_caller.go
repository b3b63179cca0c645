package api

import (
	"context"
	"net"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// callerIn returns the caller of a call. A call without a check, as in a test, has every right.
func callerIn(ctx context.Context) *auth.Caller {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x.whom()
}

// whom returns the caller of a call. Both the exchange and its caller may be nil: then every right is given.
func (x *exchange) whom() *auth.Caller {
	if x != nil && x.caller != nil {
		return x.caller
	}
	return auth.Anybody()
}

// callerName returns the caller's name in the audit log; "" if there is no guard, or no authentication was required.
func (x *exchange) callerName() string {
	if x.caller == nil {
		return ""
	}
	return x.caller.Name()
}

// actorHeader is the header in which a caller names itself for the audit log.
const actorHeader = "Stint-Actor"

// actorOf returns the actor of a change: the proven token, role or socket, and the person in the actor header, for
// whom the change was made. Without proof it is that header, which is not verified, else the remote address of the
// call.
func actorOf(ctx context.Context) (string, error) {
	x := exchangeOf(ctx)
	named, remote := x.value(ctx, actorHeader), x.remote
	proven := callerIn(ctx).Name()
	if proven != "" && named != "" {
		named = proven + " for " + named
	} else if proven != "" {
		named = proven
	}
	if named == "" {
		if host, _, err := net.SplitHostPort(remote); err == nil {
			return host, nil
		}
		return remote, nil
	}
	if problem := lengthProblem(named, shard.MaxActor); problem != "" {
		return "", shard.Invalidf("stint-actor", "%s", problem)
	}
	if !utf8.ValidString(named) || strings.ContainsFunc(named, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", shard.Invalidf("stint-actor", "must be printable text")
	}
	return named, nil
}

// value returns a header of a call, which has those of net/http or, on grpc-go's port, metadata in its context.
func (x *exchange) value(ctx context.Context, name string) string {
	if x.header != nil {
		return x.header.Get(name)
	}
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}
