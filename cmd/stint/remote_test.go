package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	awaits "github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/memnet"
)

// fateOf returns the fate that a call reports when this handler answers and the call may take this long, in virtual
// time.
func fateOf(t *testing.T, timeout time.Duration, counts bool, handler http.HandlerFunc) (fate string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network, usual := memnet.New(), http.DefaultTransport
		here, there := network.Listen("command"), network.Listen("server")
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return here.Dial("server", timeout)
		}}
		http.DefaultTransport = transport
		defer func() { http.DefaultTransport = usual }()
		server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		go server.Serve(there)
		fate = explained(remote{Addr: "http://memory", Timeout: timeout}, counts)
		transport.CloseIdleConnections()
		server.Close()
	})
	return fate
}

func explained(r remote, counts bool) string {
	ctx, cancel := r.context()
	defer cancel()
	_, err := r.limits().Check(ctx, connect.NewRequest(&stintv1.CheckRequest{}))
	maybe := ""
	if counts {
		maybe = maybeCounted
	}
	return r.explain(ctx, "check", err, maybe).Error()
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
	io.Copy(io.Discard, r.Body) // so that the end of the caller's connection is noticed
	<-r.Context().Done()
}

const remedy = "(it may have been counted: repeat it with the same --id to learn"

// A caller with a connection that breaks after the request learns that it may have been counted, and how to find out.
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
		if got := fateOf(t, time.Second, true, handler); !strings.Contains(got, remedy) {
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
		if got := fateOf(t, time.Second, true, handler); strings.Contains(got, "counted") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := fateOf(t, time.Second, false, hangUp); strings.Contains(got, "counted") {
		t.Errorf("a call that only reads: %s", got)
	}
}

// The server gets less time than the command has: the rest is for the way back of its answer.
func TestTheServerIsGivenLessTimeThanTheCommandHas(t *testing.T) {
	var given string
	fateOf(t, time.Minute, true, func(w http.ResponseWriter, r *http.Request) {
		given = r.Header.Get("Connect-Timeout-Ms")
		connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeUnavailable, errors.New("no owner")))
	})
	if millis, err := strconv.Atoi(given); err != nil || millis > 59_500 {
		t.Errorf("of 60 s it is given %d ms, %v", millis, err)
	}
}

// A node without room for a connection says that nothing was counted, and all commands show that.
func TestACrowdedNodeIsHeard(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1))
			c.Write(api.Refusal)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	defer func() { listener.Close(); <-served }()
	addr := "http://" + listener.Addr().String()
	const why = "too many connections; nothing was counted; ask another node, or again in a second"
	if got := explained(remote{Addr: addr, Timeout: awaits.Patience}, true); got != "check: unavailable: "+why {
		t.Errorf("check says %s", got)
	}
	health := healthcheckCommand{remote{Addr: addr, Timeout: awaits.Patience}}
	if err := health.Run(streams{out: io.Discard}); err == nil ||
		!strings.HasSuffix(err.Error(), "503 Service Unavailable: "+why) {
		t.Errorf("healthcheck says %v", err)
	}
}

// A node redirects nobody: a token does not go where another answer sends it.
func TestARedirectIsNotFollowed(t *testing.T) {
	elsewhere := make(chan string, 1)
	there := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		elsewhere <- r.Header.Get("Authorization")
	}))
	defer there.Close()
	node := httptest.NewServer(http.RedirectHandler(there.URL, http.StatusTemporaryRedirect))
	defer node.Close()
	secret, err := auth.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("STINT_TOKEN", secret)
	if said := explained(remote{Addr: node.URL, Timeout: awaits.Patience}, true); !strings.Contains(said, "307") {
		t.Errorf("the command says %s", said)
	}
	select {
	case token := <-elsewhere:
		t.Errorf("a request went elsewhere, with %q", token)
	default:
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
		if got := explained(remote{Addr: addr, Timeout: 200 * time.Millisecond},
			true); strings.Contains(got, "counted") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A server that cannot serve gives the reason when its time is over: the command is still there to read it.
func TestTheServersReasonIsWaitedFor(t *testing.T) {
	got := fateOf(t, 2*time.Second, true, func(w http.ResponseWriter, r *http.Request) {
		millis, _ := strconv.Atoi(r.Header.Get("Connect-Timeout-Ms"))
		if millis > 1800 {
			t.Errorf("the server may take %d ms of 2 s: its answer comes too late", millis)
		}
		io.Copy(io.Discard, r.Body)
		time.Sleep(time.Duration(millis) * time.Millisecond) // like a server that looks for an owner until the end
		connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeUnavailable,
			errors.New("no owner of shard 2 was found")))
	})
	if !strings.HasSuffix(got, "check: unavailable: no owner of shard 2 was found") {
		t.Errorf("got %s", got)
	}
}
