package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// fateOf says what a check is told of its fate when this handler answers it.
func fateOf(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return explained(remote{Addr: server.URL, Timeout: 100 * time.Millisecond}, true)
}

func explained(r remote, counts bool) string {
	ctx, cancel := r.context()
	defer cancel()
	_, err := r.limits(ctx).Check(ctx, connect.NewRequest(&stintv1.CheckRequest{}))
	return r.explain(ctx, "check", err, counts).Error()
}

func answerWith(t *testing.T, err *connect.Error, details ...*stintv1.Failure) http.HandlerFunc {
	for _, d := range details {
		detail, fault := connect.NewErrorDetail(d)
		if fault != nil {
			t.Fatal(fault)
		}
		err.AddDetail(detail)
	}
	return func(w http.ResponseWriter, r *http.Request) { connect.NewErrorWriter().Write(w, r, err) }
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // so that the caller's end of the connection is noticed
	<-r.Context().Done()
}

const remedy = "(it may have been counted: repeat it with the same --id to learn"

// Whoever was cut off after asking is told that it may have been counted, and how to learn.
func TestWhatMayHaveBeenCountedIsSaid(t *testing.T) {
	unavailable := func() *connect.Error { return connect.NewError(connect.CodeUnavailable, errors.New("moved")) }
	for name, handler := range map[string]http.HandlerFunc{
		"the connection breaks":     hangUp,
		"the answer takes too long": hang,
		"a proxy answers":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"the server does not know":  answerWith(t, connect.NewError(connect.CodeAborted, errors.New("lost"))),
		"the server says so":        answerWith(t, unavailable(), &stintv1.Failure{MaybeApplied: true}),
		"the server has a bug":      answerWith(t, connect.NewError(connect.CodeInternal, errors.New("bug"))),
	} {
		if got := fateOf(t, handler); !strings.Contains(got, remedy) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWhatWasNotCountedIsNotSaidToBe(t *testing.T) {
	aborted := connect.NewError(connect.CodeAborted, errors.New("in conflict"))
	for name, handler := range map[string]http.HandlerFunc{
		"the server is busy": answerWith(t, connect.NewError(connect.CodeUnavailable, errors.New("no room"))),
		"no such policy":     answerWith(t, connect.NewError(connect.CodeNotFound, errors.New("no policy"))),
		"the server says so": answerWith(t, aborted, &stintv1.Failure{Code: "aborted"}),
	} {
		if got := fateOf(t, handler); strings.Contains(got, "counted") {
			t.Errorf("%s: %s", name, got)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(hangUp))
	defer server.Close()
	if got := explained(remote{Addr: server.URL, Timeout: time.Second}, false); strings.Contains(got, "counted") {
		t.Errorf("a call that only reads: %s", got)
	}
}

func TestWhatWasNeverSentWasNotCounted(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	for name, addr := range map[string]string{
		"nobody listens":                  "127.0.0.1:1",
		"no such host":                    "stint.invalid:7400",
		"no handshake within the timeout": "https://" + deaf.Addr().String(),
	} {
		if got := explained(remote{Addr: addr, Timeout: 200 * time.Millisecond}, true); strings.Contains(got, "counted") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
