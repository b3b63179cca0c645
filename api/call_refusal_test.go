package api

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// asAnother sends requests under another host name.
type asAnother struct {
	host, origin string
	next         http.RoundTripper // nil: the default
}

func (a asAnother) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = a.host
	if a.origin != "" {
		r.Header.Set("Origin", a.origin)
	}
	if a.next == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return a.next.RoundTrip(r)
}

// refusing is a server without room.
func refusing(t *testing.T) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1))
			c.Write(Refusal)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// A client must learn why it was turned away, and that nothing was counted.
func TestAClientThatIsTurnedAwayHearsWhyInItsProtocol(t *testing.T) {
	w := newWorld(t)
	const foreign = `"stint.corp.example:7400" is not a name of this server`
	for _, c := range []struct {
		url, host, origin string
		code              connect.Code
		says              string
	}{
		{w.url, "stint.corp.example:7400", "", connect.CodePermissionDenied, foreign},
		{w.url, "localhost", "http://evil.example", connect.CodePermissionDenied, "a web page of another site"},
		{refusing(t), "", "", connect.CodeUnavailable, "too many connections; nothing was counted"},
	} {
		for name, options := range map[string][]connect.ClientOption{
			"Connect":       nil,
			"Connect JSON":  {connect.WithProtoJSON()},
			"Connect GET":   {connect.WithHTTPGet()},
			"gRPC":          {connect.WithGRPC()},
			"gRPC-Web JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
		} {
			if c.says != foreign && strings.HasPrefix(name, "gRPC") {
				continue // a refused connection is answered before its request is read, and a web page gets a plain 403
			}
			client := stintv1connect.NewLimitServiceClient(
				&http.Client{Transport: asAnother{host: c.host, origin: c.origin}}, c.url, options...)
			_, err := client.Check(t.Context(), connect.NewRequest(&stintv1.CheckRequest{}))
			hearsWhy(t, name+" check", err, c.code, c.says)
			_, err = client.Get(t.Context(), connect.NewRequest(&stintv1.GetRequest{}))
			hearsWhy(t, name+" get", err, c.code, c.says)
		}
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	over2 := &http.Client{Transport: asAnother{host: "stint.corp.example:7400",
		next: &http.Transport{Protocols: &protocols}}}
	client := stintv1connect.NewLimitServiceClient(over2, w.url) // gRPC over HTTP/2 is served by any name
	_, err := client.Check(t.Context(), connect.NewRequest(&stintv1.CheckRequest{}))
	hearsWhy(t, "Connect over HTTP/2", err, connect.CodePermissionDenied, foreign)
	stream := client.CheckStream(t.Context())
	stream.Send(&stintv1.CheckBatchRequest{}) // it may have ended already
	_, err = stream.Receive()
	hearsWhy(t, "Connect stream", err, connect.CodePermissionDenied, foreign)
	stream.CloseRequest()
	stream.CloseResponse()
}

func hearsWhy(t *testing.T, name string, err error, code connect.Code, says string) {
	t.Helper()
	var coded *connect.Error
	if !errors.As(err, &coded) || !connect.IsWireError(err) || coded.Code() != code ||
		!strings.HasPrefix(coded.Message(), says) {
		t.Errorf("%s, %s: %v", name, says, err)
		return
	}
	if len(coded.Details()) != 1 {
		t.Errorf("%s, %s: %d details", name, says, len(coded.Details()))
		return
	}
	detail, err := coded.Details()[0].Value()
	if failure, ok := detail.(*stintv1.Failure); err != nil || !ok || failure.MaybeApplied ||
		failure.Code != code.String() {
		t.Errorf("%s, %s: %v, %v", name, says, detail, err)
	}
}

// Other programs get a line of text.
func TestABrowserThatIsTurnedAwayReadsText(t *testing.T) {
	w := newWorld(t)
	r, err := http.NewRequest("GET", w.url+"/ui/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := asAnother{host: "stint.corp.example"}.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusMisdirectedRequest ||
		!strings.HasPrefix(string(text), `"stint.corp.example" is not a name`) {
		t.Errorf("%s: %s", answer.Status, text)
	}
}
