package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/stint-io/stint/api/gates"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/gate"
)

// ExtAuthzProcedure is the procedure by which Envoy asks a gate (ext_authz).
const ExtAuthzProcedure = "/" + extAuthzServiceName + "/Check"

const extAuthzServiceName = "envoy.service.auth.v3.Authorization"

const (
	// extAuthzGate is the key in context_extensions under which the proxy names the gate. Visitors cannot set it.
	extAuthzGate = "gate"
	// extAuthzGateUnnamed is the gate for proxies that cannot name one, such as those of Istio.
	extAuthzGateUnnamed = "default"
)

// extAuthzService lets Envoy ask gates by gRPC. It answers a failure with a response, never with an error: Envoy lets
// the request pass on an error if failure_mode_allow is set, and what passes is for the gate to say.
type extAuthzService struct{ gates *gates.Gates }

func (s extAuthzService) register(d *registry) {
	everyCall(d, auth.Check, ExtAuthzProcedure, s.check) //mutant:full-node-is-an-error
}

func (s extAuthzService) check(
	ctx context.Context, c *call[authv3.CheckRequest, *authv3.CheckRequest],
) (*authv3.CheckResponse, error) {
	x := exchangeOf(ctx)
	w := &answerRecorder{header: make(http.Header)}
	if err := c.problem(); err != nil { //mutant:unreadable-message-is-an-error
		x.gate, x.gateCode = gates.Refuse(w, &gate.Refusal{Status: http.StatusBadRequest, Detail: err.Error()})
		return extAuthzResponse(w), nil
	}
	about := c.message.GetAttributes()
	name := cmp.Or(about.GetContextExtensions()[extAuthzGate], extAuthzGateUnnamed)
	x.gate, x.gateCode = s.gates.Answer(ctx, w, name, extAuthzQuestion(x.remote, about))
	return extAuthzResponse(w), nil
}

// extAuthzQuestion translates a message of the proxy at peer.
func extAuthzQuestion(peer string, about *authv3.AttributeContext) *gate.Question {
	r := about.GetRequest().GetHttp()
	q := &gate.Question{
		Peer:     peer,
		Method:   r.GetMethod(),
		Host:     r.GetHost(),
		Path:     r.GetPath(),
		Header:   make(http.Header),
		Reported: true,
	}
	for name, value := range r.GetHeaders() {
		q.Header.Add(name, value)
	}
	for _, h := range r.GetHeaderMap().GetHeaders() { // instead of the former, with encode_raw_headers
		q.Header.Add(h.GetKey(), cmp.Or(string(h.GetRawValue()), h.GetValue()))
	}
	// A proxy appends the address that it sees. Envoy does so only with use_remote_address, and an address twice in a
	// row changes nothing.
	//mutant:proxys-visitor-names-itself
	q.Header.Add("X-Forwarded-For", about.GetSource().GetAddress().GetSocketAddress().GetAddress())
	return q
}

// extAuthzResponse translates the answer of a gate.
func extAuthzResponse(w *answerRecorder) *authv3.CheckResponse {
	if w.status == http.StatusOK {
		ok := &authv3.OkHttpResponse{
			Headers: extAuthzHeaders(w.header, func(name string) bool {
				return name == gates.FailedHeader
			}),
			ResponseHeadersToAdd: extAuthzHeaders(w.header, isForVisitor),
		}
		if len(ok.Headers) == 0 {
			ok.HeadersToRemove = []string{gates.FailedHeader} // a visitor's own would deceive the site
		}
		return &authv3.CheckResponse{Status: &spb.Status{},
			HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: ok}}
	}
	return &authv3.CheckResponse{Status: &spb.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode(w.status)},
			// Envoy writes its own
			Headers: extAuthzHeaders(w.header, func(name string) bool { return name != "Content-Length" }),
			Body:    w.String(),
		}}}
}

// isForVisitor reports whether a header of an answer that allows a request is for the visitor. The others are about
// the answer itself, or for the site.
func isForVisitor(name string) bool {
	switch name {
	case "Cache-Control", "Access-Control-Expose-Headers", gates.FailedHeader:
		return false
	}
	return true
}

// extAuthzHeaders returns the headers with the given names, over those of the same name that are there already.
func extAuthzHeaders(header http.Header, of func(name string) bool) (options []*corev3.HeaderValueOption) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if of(name) {
			options = append(options, &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: name, Value: header.Get(name)},
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD})
		}
	}
	return options
}
