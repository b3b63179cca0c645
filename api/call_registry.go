package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"github.com/stint-io/stint/internal/edge/auth"
)

// registry registers each procedure once for both ports: connect answers on the port of every protocol, grpc-go on a
// port of its own. Registration ends before the first request.
type registry struct {
	gate     *gatekeeper
	mux      *http.ServeMux
	services map[string]*grpc.ServiceDesc // by name, without a leading slash; all streams, also of unary procedures
	// upstream answers procedures registered through this copy (passing); nil if this API does.
	upstream  *http.Client
	endLeases func(namespace, policy, key string) // as in Config; set with upstream
}

// handle registers a procedure or path that requires permission for an operation.
func (d *registry) handle(op auth.Op, path string, handler http.Handler) {
	d.gate.ops[path] = op
	d.mux.Handle(path, handler)
}

// readOnly marks a procedure that may be called with HTTP GET.
var readOnly = connect.WithIdempotency(connect.IdempotencyNoSideEffects)

// change registers a procedure that changes something. Its handler gets the caller's name for the audit log.
func change[Req, Res any, P pointer[Req]](d *registry, op auth.Op, procedure string,
	answer func(ctx context.Context, who string, m P) (*Res, error)) {
	unary(d, op, procedure, func(ctx context.Context, m P) (*Res, error) {
		who, err := actorOf(ctx)
		if err != nil {
			return nil, err
		}
		return answer(ctx, who, m)
	})
}

// unary registers the handler of one procedure, for callers with permission for the operation on some target. If the
// operation is about keys, the handler checks each of them.
func unary[Req, Res any, P pointer[Req]](d *registry, op auth.Op, procedure string,
	answer func(context.Context, P) (*Res, error), options ...connect.HandlerOption) {
	if d.upstream != nil {
		answer = passOn[Req, Res, P](d, procedure)
	}
	everyCall(d, op, procedure,
		func(ctx context.Context, c *call[Req, P]) (*Res, error) { return admitted(ctx, c, answer) }, options...)
}

// everyCall registers the handler of one procedure as unary does, but the handler also gets calls that cannot be read,
// or have no time left, and takes room for them itself.
func everyCall[Req, Res any, P pointer[Req]](d *registry, op auth.Op, procedure string,
	answer func(context.Context, *call[Req, P]) (*Res, error), options ...connect.HandlerOption) {
	otherwise := connect.NewUnaryHandler(procedure,
		func(ctx context.Context, r *connect.Request[call[Req, P]]) (*connect.Response[Res], error) {
			response, coded := serve(ctx, d.gate, procedure, r.Msg, answer)
			if coded != nil {
				return nil, coded
			}
			return connect.NewResponse(response), nil
		}, append(options, codecs, gzipped)...)
	d.handle(op, procedure, &unaryFastPath[Req, Res, P]{d.gate, procedure, answer, otherwise})
	d.serveGRPC(procedure, grpc.StreamDesc{Handler: unaryGRPC(d, procedure, answer)})
}

// serve answers a call at any entry point: it sets a missing deadline, gives an error its code, and reports the end.
func serve[Req, Res any, P pointer[Req]](
	ctx context.Context, g *gatekeeper, procedure string, c *call[Req, P],
	answer func(context.Context, *call[Req, P]) (*Res, error),
) (*Res, *connect.Error) {
	began := time.Now()
	if err := g.afterMessage(exchangeOf(ctx), procedure); err != nil {
		return nil, g.coded(ctx, procedure, began, err)
	}
	ctx, cancel := g.withDeadline(ctx)
	defer cancel()
	response, err := answer(ctx, c)
	return response, g.coded(ctx, procedure, began, err)
}

// serveGRPC registers a procedure with grpc-go. Unary procedures are registered as streams as well: grpc-go's unary
// method is the same with one more function around it, which would give back the answer's room too early.
func (d *registry) serveGRPC(procedure string, desc grpc.StreamDesc) {
	service, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	s := d.services[service]
	if s == nil {
		s = &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
		d.services[service] = s
	}
	desc.StreamName = method
	s.Streams = append(s.Streams, desc)
}
