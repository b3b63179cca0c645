package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/policy"
)

// pipes is a listener of in-memory connections without buffers: bytes that are not read are not written.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.ended); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// dial connects to what serves the listener.
func (p pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// allowing is an API that allows everything.
func allowing() *API {
	policies := testPolicies()
	return newAPI(Config{
		Decider:  quickDecider{},
		Revision: func() *policy.Revision { return &policy.Revision{Version: 1, Set: policies} },
		Ready:    func() error { return nil },
		Metrics:  http.NotFoundHandler(),
	})
}

// servePipes serves an API in a synctest bubble.
func servePipes(t *testing.T, a *API) pipes {
	listener, server := pipes{make(chan net.Conn), make(chan struct{})}, NewServer(a, slog.New(slog.DiscardHandler))
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener
}

// dialPipes serves an API that allows everything, in a synctest bubble. It returns the dialer.
func dialPipes(t *testing.T) (dial func() net.Conn) {
	listener := servePipes(t, allowing())
	return func() net.Conn {
		conn := listener.dial()
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

func ask(t *testing.T, conn net.Conn, procedure, body string) {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST /stint.v1.LimitService/%s HTTP/1.1\r\nHost: stint\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", procedure, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func answerOf(t *testing.T, conn net.Conn) (status int, body string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// batchOf returns a CheckBatch with this number of checks and entries per check.
func batchOf(checks, entries int) string {
	one := func(i int) string { return fmt.Sprintf(`{"policy":"p","key":"%d"}`, i) }
	check := `{"entries":[` + repeat(entries, one) + `]}`
	return `{"checks":[` + strings.TrimSuffix(strings.Repeat(check+",", checks), ",") + `]}`
}

func TestAnAnswerThatNobodyReadsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialPipes(t)()
		for range 2 { // each answer has its own time, on a connection that lasts
			ask(t, conn, "Check", perIP)
			time.Sleep(answerWithin - time.Second)
			if status, _ := answerOf(t, conn); status != 200 {
				t.Errorf("read just in time: %d", status)
			}
		}
		time.Sleep(answerWithin + time.Second)
		ask(t, conn, "Check", perIP)
		if status, _ := answerOf(t, conn); status != 200 {
			t.Errorf("after a pause: %d", status)
		}
		ask(t, conn, "CheckBatch", batchOf(100, 10))
		time.Sleep(answerWithin + time.Second)
		if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
			t.Errorf("read too late: %d bytes, %v", len(rest), err)
		}
	})
}

// A client that does not finish a request, or sends none, keeps its connection only for a while.
func TestSlowAndSilentConnectionsEnd(t *testing.T) {
	for sent, within := range map[string]time.Duration{
		"":                           5 * time.Second,
		"POST / HTTP/1.1\r\nHost: s": 5 * time.Second,
		"POST /stint.v1.LimitService/Check HTTP/1.1\r\nHost: stint\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{": 30 * time.Second,
		"GET /healthz HTTP/1.1\r\nHost: stint\r\n\r\n": 5 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := dialPipes(t)()
			began := time.Now()
			go io.WriteString(conn, sent)
			io.Copy(io.Discard, conn) // until it is closed
			if took := time.Since(began); took > within+time.Second {
				t.Errorf("%.40q holds a connection for %v", sent, took)
			}
		})
	}
}

// HTTP/2 lets one connection begin a thousand calls, and each may claim the largest body and send none of it.
func TestABodyThatIsOnlyClaimedTakesNoMemory(t *testing.T) {
	sent := bytes.Repeat([]byte("x"), bodyBytesMax)
	for _, comes := range []int{0, 1, bodyBytesFirst, bodyBytesFirst + 1, bodyBytesMax} {
		body := io.MultiReader(iotest.HalfReader(bytes.NewReader(sent[:comes])), iotest.ErrReader(io.ErrUnexpectedEOF))
		r, err := http.NewRequest("POST", "http://stint/", io.NopCloser(body))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = bodyBytesMax
		b, err := readBody(nil, r)
		if !bytes.Equal(b, sent[:comes]) || (err == nil) != (comes == bodyBytesMax) {
			t.Errorf("of %d bytes %d are read: %v", comes, len(b), err)
		}
		if cap(b) > 2*max(comes, bodyBytesFirst) {
			t.Errorf("%d bytes that came take %d", comes, cap(b))
		}
	}
}

func TestLargeCallsWithoutReadersLeaveRoomForSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := dialPipes(t)
		large := batchOf(checksMax, entriesMax)
		for range 3 {
			ask(t, dial(), "CheckBatch", large)
		}
		conn := dial()
		ask(t, conn, "CheckBatch", large)
		status, body := answerOf(t, conn)
		if status != 503 {
			t.Fatalf("one too many: %d", status)
		}
		e, f := readError(t, body)
		if e.Code != "unavailable" || f.MaybeApplied || retryDelayOf(t, e) != "0.050s" {
			t.Errorf("one too many: %+v", e)
		}
		ask(t, conn, "Check", entries(entriesMax))
		if status, body := answerOf(t, conn); status != 200 {
			t.Errorf("a small call: %d %s", status, body)
		}
		time.Sleep(answerWithin + time.Second)
		ask(t, conn, "CheckBatch", large)
		if status, body := answerOf(t, conn); status != 200 {
			t.Errorf("when the others are dropped: %d %s", status, body)
		}
	})
}

// The room of refusals and answers is given back. Otherwise a node would end up refusing everything.
func TestRoomIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialPipes(t)()
		large := batchOf(checksMax, entriesMax)
		for i := range 5 { // three would fill it
			ask(t, conn, "CheckBatch", large)
			if status, body := answerOf(t, conn); status != 200 {
				t.Fatalf("call %d: %d %s", i, status, body)
			}
		}
	})
}

// A call with more entries than allowed is a mistake, not a matter of room.
func TestTooManyEntriesAreNoLackOfRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := dialPipes(t)()
		ask(t, conn, "Check", `{"entries":[`+strings.TrimSuffix(strings.Repeat("{},", 200_000), ",")+`]}`)
		if status, body := answerOf(t, conn); status != 400 || !strings.Contains(body, "entries: are 200000") {
			t.Errorf("got %d %s", status, body)
		}
	})
}
