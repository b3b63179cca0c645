package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
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
	Addr    string        `help:"Where the server is." default:"http://127.0.0.1:7400" env:"STINT_ADDR" placeholder:"URL"`
	Timeout time.Duration `help:"Give up after this long." default:"5s"`
}

// output is the flag of every command that can answer programs.
type output struct {
	Output string `short:"o" help:"table for people, json for programs." enum:"table,json" default:"table"`
}

func (o output) json() bool { return o.Output == "json" }

// url is Addr as a URL: people leave the scheme out.
func (r remote) url() string {
	addr := strings.TrimRight(r.Addr, "/")
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	return addr
}

func (r remote) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), r.Timeout)
}

func (r remote) limits() stintv1connect.LimitServiceClient {
	return stintv1connect.NewLimitServiceClient(http.DefaultClient, r.url())
}

func (r remote) policies() stintv1connect.PolicyServiceClient {
	return stintv1connect.NewPolicyServiceClient(http.DefaultClient, r.url())
}

// explain turns a failed call into what failed, on what, and what to do.
func (r remote) explain(what string, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: nobody answers: is stint running at %s? (stint serve --dev starts one; --addr or STINT_ADDR "+
			"says where it is)", what, r.url())
	}
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return fmt.Errorf("%s at %s: %w", what, r.url(), err)
	}
	text := fmt.Sprintf("%s: %s: %s", what, failure.Code(), failure.Message())
	if maybeApplied(failure) {
		text += " (it may have been counted, once)"
	}
	return errors.New(text)
}

// maybeApplied reports whether the server says, or nobody can say, that the request may have been counted.
func maybeApplied(failure *connect.Error) bool {
	for _, detail := range failure.Details() {
		if value, err := detail.Value(); err == nil {
			if f, ok := value.(*stintv1.Failure); ok {
				return f.MaybeApplied
			}
		}
	}
	return failure.Code() == connect.CodeAborted || failure.Code() == connect.CodeDeadlineExceeded
}

// printJSON writes a message as one line. The protobuf library varies its spaces on purpose, so they are taken out.
func printJSON(s streams, message proto.Message) error {
	text, err := protojson.Marshal(message)
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
