package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/offline/bench"
)

// remote has the flags of every command that calls a server.
type remote struct {
	Addr    string        `help:"Where the server is; of several, separated by commas, the first that answers is asked." default:"127.0.0.1:7400" env:"STINT_ADDR" placeholder:"URL"`
	Timeout time.Duration `help:"Give up after this long." default:"5s"`
	trust
	proof
	actor string // see as
}

// output is the flag of every command with output for programs.
type output struct {
	Output string `short:"o" help:"table for people, json for programs." enum:"table,json" default:"table"`
}

func (o output) json() bool { return o.Output == "json" }

// asking has the flags of every command that calls a server and prints the answer.
type asking struct {
	output
	remote
}

// as returns the flags for an ask in the name of an actor, for the audit log.
func (a asking) as(actor string) asking {
	a.actor = actor
	return a
}

// outputID is the flag of the commands with an answer that can be settled.
type outputID struct {
	Output string `short:"o" help:"table for people, json for programs, id: what settle takes, and nothing else." enum:"table,json,id" default:"table"`
}

// print prints a decision and returns errDenied for a denial. line is the decision in one sentence; table prints the
// rest as text. With -o id a denial has no id: its sentence goes to stderr, so that a script with an empty variable
// shows the reason.
func (o outputID) print(s streams, answer proto.Message, d *stintv1.Decision, id, line string,
	table func()) (err error) {
	switch {
	case o.Output == "json":
		err = printJSON(s, answer)
	case o.Output == "table":
		fmt.Fprintln(s.out, line)
		table()
	case id != "":
		fmt.Fprintln(s.out, id)
	case !d.GetAllowed():
		fmt.Fprintf(s.err, "stint: %s\n", line)
	}
	if err == nil && !d.GetAllowed() {
		return errDenied
	}
	return err
}

// context returns a context that ends with the timeout. It records whether a connection was ever available to write a
// request to. The error alone does not tell, because a slow dial ends like any other slow call.
func (r remote) context() (context.Context, context.CancelFunc) {
	connected := new(atomic.Bool)
	ctx := context.WithValue(context.Background(), connectedKey{}, connected)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	return context.WithTimeout(ctx, r.Timeout)
}

// leavesTime asks the server to answer a little before the command gives up. A server that cannot serve gives the
// reason when its time is over; with equal timeouts that answer would come too late.
type leavesTime struct{ http.RoundTripper }

// answerTime returns how long before the deadline the answer must come: enough for its way back, and at most a tenth of
// the time left.
func answerTime(left time.Duration) time.Duration { return min(left/10, 500*time.Millisecond) }

// RoundTrip implements http.RoundTripper.
func (l leavesTime) RoundTrip(request *http.Request) (*http.Response, error) {
	const header = "Connect-Timeout-Ms" // https://connectrpc.com/docs/protocol
	deadline, ok := request.Context().Deadline()
	if left := time.Until(deadline); ok && request.Header.Get(header) != "" {
		request = request.Clone(request.Context())
		request.Header.Set(header, strconv.FormatInt(max(1, (left-answerTime(left)).Milliseconds()), 10))
	}
	return l.RoundTripper.RoundTrip(request)
}

type connectedKey struct{}

// neverSent reports whether a context of remote never had a connection.
func neverSent(ctx context.Context) bool {
	connected, ok := ctx.Value(connectedKey{}).(*atomic.Bool)
	return ok && !connected.Load()
}

func (r remote) limits() stintv1connect.LimitServiceClient {
	return stintv1connect.NewLimitServiceClient(r.client(), anyAddress)
}

func (r remote) policies() stintv1connect.PolicyServiceClient {
	return stintv1connect.NewPolicyServiceClient(r.client(), anyAddress)
}

func (r remote) observe() stintv1connect.ObserveServiceClient {
	return stintv1connect.NewObserveServiceClient(r.client(), anyAddress)
}

func (r remote) cluster() stintv1connect.ClusterServiceClient {
	return stintv1connect.NewClusterServiceClient(r.client(), anyAddress)
}

// maybeCounted is the maybe of calls that change a key's usage: see explain.
const maybeCounted = "it may have been counted: repeat it with the same --id to learn; without one a repeat counts " +
	"again"

// maybeDone is the maybe of other changes that take an --id.
const maybeDone = "it may have been done: repeat it with the same --id to learn; without one a repeat does it again"

// ask makes one call. See explain for what and maybe.
func ask[Q, A any](
	r remote, what, maybe string, call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), m *Q,
) (*A, error) {
	ctx, cancel := r.context()
	defer cancel()
	request := connect.NewRequest(m)
	if r.actor != "" {
		request.Header().Set("Stint-Actor", r.actor)
	}
	answer, err := call(ctx, request)
	if err != nil {
		return nil, told{r.explain(ctx, what, err, maybe), err}
	}
	return answer.Msg, nil
}

// asked is ask and show.
func asked[Q, A any](
	s streams, a asking, what, maybe string,
	call func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), m *Q, text func(streams, *A),
) error {
	answer, err := ask(a.remote, what, maybe, call, m)
	return show(s, a.output, answer, err, text)
}

// show prints an answer: as JSON if that was asked for, else by text. It returns the error that came in its place.
func show[M any](s streams, o output, answer M, err error, text func(streams, M)) error {
	switch {
	case err != nil:
		return err
	case o.json():
		return printJSON(s, answer)
	}
	text(s, answer)
	return nil
}

// explain turns a failed call into an error for display: what failed, on what, and what to do. ctx is the call's
// context. maybe is the text for a call that may have been carried out, or "".
func (r remote) explain(ctx context.Context, what string, err error, maybe string) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: no answer: is stint running at %s? (stint serve --dev starts one; --addr or STINT_ADDR "+
			"says where it is)", what, r.where())
	}
	why := tlsProblem(err)
	if why == "" && !connect.IsWireError(err) {
		why = r.refusesUs(context.WithoutCancel(ctx))
	}
	if why != "" {
		return fmt.Errorf("%s: no answer from %s: %s", what, r.where(), why)
	}
	text := fmt.Sprintf("%s: no answer from %s: %v", what, r.where(), err)
	var failure *connect.Error
	if errors.As(err, &failure) {
		text = fmt.Sprintf("%s: no answer from %s: %s", what, r.where(), innermost(failure))
		if connect.IsWireError(err) {
			text = fmt.Sprintf("%s: %s: %s", what, failure.Code(), failure.Message())
		}
	}
	if maybe != "" && !neverSent(ctx) && maybeApplied(err) {
		text += " (" + maybe + ")"
	}
	return errors.New(text)
}

// innermost returns the cause of an error, without the texts of the outer errors.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// maybeApplied reports whether a sent request may have been counted, by the server's answer or for lack of one.
func maybeApplied(err error) bool {
	_, fate := bench.FailureOf(err)
	return fate == bench.Unknown
}

// asJSON has the form of the server's own JSON: every field that is not a message is present, even "allowed": false.
var asJSON = protojson.MarshalOptions{EmitDefaultValues: true}

// printJSON writes a message, or another value, as one line. The protobuf library varies its spaces on purpose, so they
// are removed.
func printJSON(s streams, value any) error {
	message, ok := value.(proto.Message)
	if !ok {
		return json.NewEncoder(raw(s.out)).Encode(value)
	}
	text, err := asJSON.Marshal(message)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	fmt.Fprintln(raw(s.out), line.String())
	return nil
}
