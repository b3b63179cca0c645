package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// remote are the flags of every command that asks a server.
type remote struct {
	Addr    string        `help:"Where the server is; of several, separated by commas, the first that answers is asked." default:"http://127.0.0.1:7400" env:"STINT_ADDR" placeholder:"URL"`
	Timeout time.Duration `help:"Give up after this long." default:"5s"`
}

// output is the flag of every command that can answer programs.
type output struct {
	Output string `short:"o" help:"table for people, json for programs." enum:"table,json" default:"table"`
}

func (o output) json() bool { return o.Output == "json" }

// outputID is the flag of the commands whose answer can be settled.
type outputID struct {
	Output string `short:"o" help:"table for people, json for programs, id: what settle takes, and nothing else." enum:"table,json,id" default:"table"`
}

// print tells a decision, and by its error whether it is a denial. line is the decision in a sentence, and table says the
// rest of it to people. With -o id a denial has no id: then the sentence goes to stderr, so that a script whose variable
// stays empty says why.
func (o outputID) print(s streams, answer proto.Message, d *stintv1.Decision, id, line string, table func() error) (err error) {
	switch {
	case o.Output == "json":
		err = printJSON(s, answer)
	case o.Output == "table":
		fmt.Fprintln(s.out, line)
		err = table()
	case id != "":
		_, err = fmt.Fprintln(s.out, id)
	case !d.GetAllowed():
		fmt.Fprintf(s.err, "stint: %s\n", line)
	}
	if err == nil && !d.GetAllowed() {
		return errDenied
	}
	return err
}

// context ends with the timeout. It notes whether there was ever a connection that a request could be written to: the
// error alone does not tell, because a dial that takes too long ends as any other call does that takes too long.
func (r remote) context() (context.Context, context.CancelFunc) {
	connected := new(atomic.Bool)
	ctx := context.WithValue(context.Background(), connectedKey{}, connected)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	return context.WithTimeout(ctx, r.Timeout)
}

type connectedKey struct{}

// neverSent reports whether a context of remote has seen no connection.
func neverSent(ctx context.Context) bool {
	connected, ok := ctx.Value(connectedKey{}).(*atomic.Bool)
	return ok && !connected.Load()
}

func (r remote) limits(ctx context.Context) stintv1connect.LimitServiceClient {
	return stintv1connect.NewLimitServiceClient(http.DefaultClient, r.reach(ctx))
}

func (r remote) policies(ctx context.Context) stintv1connect.PolicyServiceClient {
	return stintv1connect.NewPolicyServiceClient(http.DefaultClient, r.reach(ctx))
}

func (r remote) observe(ctx context.Context) stintv1connect.ObserveServiceClient {
	return stintv1connect.NewObserveServiceClient(http.DefaultClient, r.reach(ctx))
}

func (r remote) cluster(ctx context.Context) stintv1connect.ClusterServiceClient {
	return stintv1connect.NewClusterServiceClient(http.DefaultClient, r.reach(ctx))
}

// explain turns a failed call into what failed, on what, and what to do. ctx is the call's. counts tells calls that
// change what a key has used from those that only read.
func (r remote) explain(ctx context.Context, what string, err error, counts bool) error {
	if !counts {
		return r.explainFate(ctx, what, err, "")
	}
	return r.explainFate(ctx, what, err,
		"it may have been counted: repeat it with the same --id to learn; without one a repeat counts again")
}

// explainFate is explain with what to say of a call that may have been carried out; "": nothing.
func (r remote) explainFate(ctx context.Context, what string, err error, maybe string) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: nobody answers: is stint running at %s? (stint serve --dev starts one; --addr or STINT_ADDR "+
			"says where it is)", what, r.where())
	}
	text := fmt.Sprintf("%s: no answer from %s: %v", what, r.where(), err)
	var failure *connect.Error
	if errors.As(err, &failure) {
		text = fmt.Sprintf("%s: no answer from %s: %s", what, r.where(), failure.Message())
		if connect.IsWireError(err) {
			text = fmt.Sprintf("%s: %s: %s", what, failure.Code(), failure.Message())
		}
	}
	if maybe != "" && !neverSent(ctx) && maybeApplied(err) {
		text += " (" + maybe + ")"
	}
	return errors.New(text)
}

// maybeApplied reports whether the server says, or nobody can say, that a request that was sent may have been counted.
func maybeApplied(err error) bool {
	var failure *connect.Error
	if !connect.IsWireError(err) || !errors.As(err, &failure) {
		return true
	}
	for _, detail := range failure.Details() {
		if value, err := detail.Value(); err == nil {
			if f, ok := value.(*stintv1.Failure); ok {
				return f.MaybeApplied
			}
		}
	}
	switch failure.Code() {
	case connect.CodeAborted, connect.CodeDeadlineExceeded, connect.CodeCanceled, connect.CodeInternal,
		connect.CodeUnknown, connect.CodeDataLoss:
		return true
	}
	return false
}

// asJSON has the shape of the server's own JSON: every field that is not a message is there, "allowed": false too.
var asJSON = protojson.MarshalOptions{EmitDefaultValues: true}

// printJSON writes a message as one line. The protobuf library varies its spaces on purpose, so they are taken out.
func printJSON(s streams, message proto.Message) error {
	text, err := asJSON.Marshal(message)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err = s.out.Write(line.Bytes())
	return err
}
