package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/tap"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// withDeadline gives a call the default deadline if its client has set none. The limit of withCallTimeout does not
// count as one.
func (g *gatekeeper) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		if l, limited := ctx.Value(timedCallKey{}).(*timedCall); !limited || !l.unasked {
			return ctx, func() {}
		}
	}
	return context.WithTimeout(ctx, g.timeout)
}

// timeoutOf returns the timeout of a call by Connect's protocol, below 0 if it has none. It returns false if the
// timeout cannot be read.
func timeoutOf(r *http.Request) (timeout time.Duration, ok bool) {
	text := r.Header["Connect-Timeout-Ms"]
	if len(text) == 0 {
		return -1, true
	}
	const digitsMax = 10 // by Connect's protocol
	ms, err := strconv.ParseUint(text[0], 10, 64)
	if err != nil || len(text) > 1 || len(text[0]) > digitsMax {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// callWithin is how long a call through grpc-go may take including its message, like a request on the other port
// (ReadTimeout). It is for calls without a deadline, or with a later one: nothing else would end a call with a missing
// message.
const callWithin = 30 * time.Second

// timedCall is the context of a call with the time limit of withCallTimeout.
type timedCall struct {
	context.Context
	end     context.CancelFunc // ends the time limit; unused, as grpc-go ends the context below with the call
	unasked bool               // the client set no deadline
}

type timedCallKey struct{}

// Value implements context.Context.
func (l *timedCall) Value(key any) any {
	if key == (timedCallKey{}) {
		return l
	}
	return l.Context.Value(key)
}

// withCallTimeout gives a call its time limit, before grpc-go waits for its message. A stream of checks has none: it
// may be idle for long.
func withCallTimeout(ctx context.Context, info *tap.Info) (context.Context, error) {
	deadline, asked := ctx.Deadline()
	if asked && time.Until(deadline) <= callWithin ||
		info.FullMethodName == stintv1connect.LimitServiceCheckStreamProcedure {
		return ctx, nil
	}
	l := &timedCall{unasked: !asked}
	l.Context, l.end = context.WithTimeout(ctx, callWithin)
	return l, nil
}
