package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
)

// serving is the configuration of a node with a certificate.
func serving(t *testing.T, files testcert.Files) *tls.Config {
	t.Helper()
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{own}}
}

func startWith(t *testing.T, config client.Config) *client.Client {
	t.Helper()
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The owners that the client learns are asked over TLS too, and verified by the address that they announce.
func TestOwnersAreAskedOverTLS(t *testing.T) {
	ca := testcert.New(t)
	secure := serving(t, ca.Write(t.TempDir()))
	a, b := startNodeWith(t, secure), startNodeWith(t, secure)
	own(a, b)
	c := startWith(t, client.Config{Addresses: []string{a.url}, TLS: ca.Trusting()})
	knows(t, c, b)
}

// A certificate that names no address is good for all nodes, if the client has its name.
func TestOneNameMayStandForAllNodes(t *testing.T) {
	ca := testcert.New(t)
	secure := serving(t, ca.Write(t.TempDir(), testcert.Hosts("stint.example.com")))
	a, b := startNodeWith(t, secure), startNodeWith(t, secure)
	own(a, b)
	config := ca.Trusting()
	config.ServerName = "stint.example.com"
	knows(t, startWith(t, client.Config{Addresses: []string{a.url}, TLS: config}), b)
}

// Owners with certificates that the client does not accept are avoided for a while, and the client asks the configured
// address instead, which forwards requests.
func TestOwnersThatCannotBeVerifiedAreLeftAlone(t *testing.T) {
	ca := testcert.New(t)
	var handshakes atomic.Int64
	other := serving(t, ca.Write(t.TempDir(), testcert.Hosts("stint.example.com")))
	other.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { handshakes.Add(1); return nil, nil }
	good := startNodeWith(t, serving(t, ca.Write(t.TempDir())))
	// the last one in plaintext
	nodes := []*fakeNode{good, startNodeWith(t, other), startNodeWith(t, other), startNode(t)}
	own(nodes...)
	c := startWith(t, client.Config{Addresses: []string{good.url}, TLS: ca.Trusting()})
	for i := range 200 {
		if _, err := c.Check(t.Context(), client.Entry("p", fmt.Sprintf("user:%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, keys := good.asked(); len(keys) != 200 {
		t.Errorf("the node that can be verified was asked for %d keys", len(keys))
	}
	if n := handshakes.Load(); n > 8 {
		t.Errorf("the two that cannot were dialed %d times", n)
	}
}

// No request is sent before both ends accept each other, so nothing was counted.
func TestWhatFailsBeforeTLSStandsIsCertainlyNotCounted(t *testing.T) {
	ca := testcert.New(t)
	files := ca.Write(t.TempDir())
	secure := startNodeWith(t, serving(t, files))
	clear := startNode(t)
	wantsRoles := serving(t, files)
	wantsRoles.ClientAuth, wantsRoles.ClientCAs = tls.RequireAndVerifyClientCert, testcert.New(t).Pool()
	guarded := startNodeWith(t, wantsRoles)
	old := serving(t, files)
	old.MaxVersion = tls.VersionTLS10
	old.MinVersion = tls.VersionTLS10
	for name, test := range map[string]struct {
		config client.Config
		want   string
	}{
		"an authority that is not trusted": {client.Config{Addresses: []string{secure.url},
			TLS: testcert.New(t).Trusting()}, "unknown authority"},
		"the system's authorities": {client.Config{Addresses: []string{secure.url}}, "unknown authority"},
		"another name": {client.Config{Addresses: []string{secure.url},
			TLS: &tls.Config{RootCAs: ca.Pool(), ServerName: "x"}}, "not x"},
		"a node in plaintext": {
			client.Config{Addresses: []string{strings.Replace(clear.url, "http://", "https://", 1)},
				TLS: ca.Trusting()}, "does not look like a TLS handshake"},
		"an old server": {client.Config{Addresses: []string{startNodeWith(t, old).url},
			TLS: ca.Trusting()}, "protocol version"},
		"a node with TLS": {client.Config{Addresses: []string{"http://" + refusesPlaintext(t)}}, "http2: "},
		"a transport of the caller": {client.Config{Addresses: []string{secure.url}, HTTP: &http.Client{
			Transport: &http.Transport{TLSClientConfig: testcert.New(t).Trusting()}}}, "unknown authority"},
	} {
		c, patience := startWith(t, test.config), 50*time.Millisecond
		await.Until(t, name+" is told", func() bool { // a deadline in the middle of a handshake has another error
			patience = min(2*patience, time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := c.Check(ctx, client.Entry("p", "k"))
			var failure *client.Error
			return errors.As(err, &failure) && !failure.MaybeApplied && failure.Code == "unavailable" &&
				strings.Contains(failure.Message, test.want)
		})
	}
	c, patience := startWith(t, client.Config{Addresses: []string{guarded.url},
		TLS: ca.Client(testcert.URIs("stint://role/x"))}), 50*time.Millisecond
	await.Until(t, "a certificate that the node refuses is not served", func() bool {
		patience = min(2*patience, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := c.Check(ctx, client.Entry("p", "k"))
		if err == nil {
			t.Fatal("it is served")
		}
		return strings.Contains(err.Error(), "tls: ")
	})
}

// refusesPlaintext is a port that answers as a node's with TLS does.
func refusesPlaintext(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(await.Patience))
				c.Read(make([]byte, 1))
				io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

func TestTLSIsForTheClientsOwnTransport(t *testing.T) {
	_, err := client.New(client.Config{Addresses: []string{"https://127.0.0.1:7400"}, HTTP: http.DefaultClient,
		TLS: &tls.Config{}})
	if err == nil || !strings.Contains(err.Error(), "both HTTP and TLS") {
		t.Errorf("got %v", err)
	}
}
