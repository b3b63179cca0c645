package redis

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// sendAll sends everything in one segment and returns all replies until the connection ends.
func sendAll(t *testing.T, s *Server, sent string) string {
	t.Helper()
	c := dialTCP(t, s)
	c.send(sent)
	heard, err := io.ReadAll(c.in)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("%.60q: %v, %q", sent, err, heard)
	}
	return string(heard)
}

func TestAWebPageCannotCount(t *testing.T) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	array := "*2\r\n$4\r\nINCR\r\n$6\r\nvictim\r\n"
	for name, sent := range map[string]string{
		"a post":                         "POST / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\n\r\nINCR victim\r\n" + array,
		"a post in lower case":           "post /x HTTP/1.1\r\n\r\n" + array,
		"a get":                          "GET /x?y=z HTTP/1.1\r\nHost: a\r\n\r\nINCR victim\r\n",
		"a get of HTTP/1.0":              "GET / HTTP/1.0\r\nINCR victim\r\n",
		"a get whose line was split":     "GET /\r\nINCR victim\r\n HTTP/1.1\r\nHost: a\r\n\r\n",
		"through a proxy":                "GET http://127.0.0.1:6379/ HTTP/1.1\r\n\r\nINCR victim\r\n",
		"a put":                          "PUT /x HTTP/1.1\r\n\r\nINCR victim\r\n",
		"a question before a post":       "OPTIONS /x HTTP/1.1\r\n\r\nINCR victim\r\n",
		"a method that nobody has named": "QUERY /x HTTP/1.1\r\n\r\nINCR victim\r\n",
		"the preface of HTTP/2":          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nINCR victim\r\n",
		"empty lines first":              "\r\n\r\nPOST / HTTP/1.1\r\n\r\nINCR victim\r\n",
		"a header":                       "Host: 127.0.0.1\r\nINCR victim\r\n",
		"a header without a blank":       "Content-Length:12\r\nINCR victim\r\n",
		"POST as an array":               "*1\r\n$4\r\nPOST\r\n" + array,
		"Host: as an array":              "*2\r\n$5\r\nhost:\r\n$1\r\na\r\n" + array,
		"in a refused transaction":       "POST / HTTP/1.1\r\nMULTI\r\nINCR victim\r\n",
	} {
		heard := sendAll(t, s, sent)
		if strings.Count(heard, "\r\n") != 1 || !strings.Contains(heard, "this is HTTP") {
			t.Errorf("%s hears %q", name, heard)
		}
	}
	if got := dialTCP(t, s).ask("GET victim"); got != "(nil)" {
		t.Errorf("the victim's counter is %s", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) != 1 {
		t.Errorf("%d calls", len(w.calls))
	}
}

func TestHTTPBehindCommandsEndsTheConnectionThere(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	heard := sendAll(t, s, "INCR a\r\nMULTI\r\n*1\r\n$4\r\nPOST\r\nDISCARD\r\nINCR a\r\n")
	lines := strings.Split(heard, "\r\n")
	if len(lines) != 4 || lines[0] != ":1" || !strings.Contains(lines[2], "this is HTTP") {
		t.Errorf("%q", heard)
	}
	if got := dialTCP(t, s).ask("GET a"); got != `"1"` {
		t.Errorf("a is %s", got)
	}
}

func TestATLSHelloCannotCount(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	// A server that answers a hello chooses part of the next one: its session ticket.
	hello := []byte{0x16, 0x03, 0x01, 0x00, 0xf4, 0x01, 0x00, 0x00, 0xf0, 0x03, 0x03}
	heard := sendAll(t, s, string(hello)+"\r\nINCR victim\r\n")
	if strings.Count(heard, "\r\n") != 1 || !strings.Contains(heard, "this is TLS") {
		t.Errorf("it hears %q", heard)
	}
	// the server does not wait for the rest
	if heard := sendAll(t, s, string(hello[:1])); !strings.Contains(heard, "this is TLS") {
		t.Errorf("it hears %q", heard)
	}
	if got := dialTCP(t, s).ask("GET victim"); got != "(nil)" {
		t.Errorf("the victim's counter is %s", got)
	}
}

func TestRealClientsOfOtherProtocolsAreToldSo(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	defer func() { listener.Close(); <-served }()
	addr := listener.Addr().String()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for range 3 {
		response, err := (&http.Client{Transport: transport}).Post("http://"+addr, "text/plain",
			strings.NewReader("\r\nINCR victim\r\n"))
		if err == nil {
			response.Body.Close()
			t.Errorf("a post is answered with %s", response.Status)
		}
	}
	if _, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("a TLS client is answered")
	} else if record := new(tls.RecordHeaderError); errors.As(err, record) &&
		!bytes.HasPrefix(record.RecordHeader[:], []byte("-ERR")) {
		t.Errorf("a TLS client hears %q", record.RecordHeader[:])
	}
	if got := dialTCP(t, s).ask("GET victim"); got != "(nil)" {
		t.Errorf("the victim's counter is %s", got)
	}
}

func TestWhatOnlyLooksLikeHTTPIsACommand(t *testing.T) {
	s, _ := serve(t, newWorld(t), nil)
	c := dialTCP(t, s)
	for sent, want := range map[string]string{
		"GET visits":                  "(nil)",
		"get visits/":                 "(nil)",
		"GET HTTP":                    "(nil)",
		"*2\r\n$3\r\nGET\r\n$2\r\n/x": "(nil)",
		"*2\r\n$3\r\nGET\r\n$15\r\nx HTTP/1.1 y:zz": "(nil)",
		"*2\r\n$4\r\nINCR\r\n$5\r\nHost:":           ":1",
	} {
		if got := c.ask(sent); got != want {
			t.Errorf("%q: %s, not %s", sent, got, want)
		}
	}
}
