package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/clienttls"
	"github.com/stint-io/stint/internal/edge/connlimit"
	"github.com/stint-io/stint/internal/observe/metrics"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
)

// secured is a lone node with TLS on its ports for clients.
type secured struct {
	*Node
	t      *testing.T
	ca     *testcert.Authority
	files  testcert.Files
	config Config
}

func startSecured(t *testing.T, change func(*Config)) *secured {
	t.Helper()
	s := &secured{t: t, ca: testcert.New(t), config: testConfig(t)}
	s.files = s.ca.Write(t.TempDir())
	s.config.GRPCAddr, s.config.RedisAddr = "127.0.0.1:0", "127.0.0.1:0"
	s.config.ClientTLS = &clienttls.Files{Cert: s.files.Cert, Key: s.files.Key, CAs: s.files.CA}
	if change != nil {
		change(&s.config)
	}
	s.Node = start(t, s.config)
	t.Cleanup(func() {
		if s.Node != nil {
			stop(t, s.Node)
		}
	})
	return s
}

// http returns a client of HTTP/1.1 or HTTP/2 alone.
func (s *secured) http(version int) *http.Client {
	transport := &http.Transport{TLSClientConfig: s.ca.Trusting(), Protocols: new(http.Protocols),
		DialContext: dialerOf(s.Node)}
	transport.Protocols.SetHTTP1(version == 1)
	transport.Protocols.SetHTTP2(version == 2)
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: await.Patience}
}

// dial connects to a port, and says hello.
func (s *secured) dial(addr string, secure *tls.Config) (*tls.Conn, error) {
	raw, err := dialerOf(s.Node)(s.t.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	secure.ServerName, _, _ = net.SplitHostPort(addr)
	conn := tls.Client(raw, secure)
	if err := conn.Handshake(); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// check spends one of policy plenty over HTTP.
func (s *secured) check(c *http.Client, key string) error {
	response, err := c.Post("https://"+s.APIAddr()+"/stint.v1.LimitService/Check", "application/json",
		strings.NewReader(fmt.Sprintf(`{"entries":[{"policy":"plenty","key":%q}]}`, key)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != 200 || !bytes.Contains(text, []byte(`"allowed":true`))) {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

func (s *secured) redis(change func(*redis.Options)) *redis.Client {
	options := &redis.Options{Addr: s.RedisAddr(), TLSConfig: s.ca.Trusting(), MaxRetries: -1, DialerRetries: 1}
	if change != nil {
		change(options)
	}
	options.Dialer = redisDialer(s.t, options.TLSConfig)
	c := redis.NewClient(options)
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *secured) grpc(addr string, secure credentials.TransportCredentials) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(secure), grpcDialer(s.Node))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

func (s *secured) used(key string) uint64 {
	s.t.Helper()
	var state stintv1.GetResponse
	if err := s.grpc(s.GRPCAddr(), credentials.NewTLS(s.ca.Trusting())).Invoke(s.t.Context(),
		stintv1connect.LimitServiceGetProcedure, &stintv1.GetRequest{Entries: plentyOf(key).Entries},
		&state); err != nil {
		s.t.Fatal(err)
	}
	return state.Limits[0].Used
}

func TestEveryPortOfClientsSpeaksTLS(t *testing.T) {
	t.Parallel()
	s := startSecured(t, nil)
	for _, version := range []int{1, 2} {
		if err := s.check(s.http(version), "http"); err != nil {
			t.Errorf("HTTP/%d: %v", version, err)
		}
	}
	for _, addr := range []string{s.APIAddr(), s.GRPCAddr()} {
		conn := s.grpc(addr, credentials.NewTLS(s.ca.Trusting()))
		if err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckProcedure, plentyOf("grpc"),
			&stintv1.CheckResponse{}); err != nil {
			t.Errorf("gRPC: %v", err)
		}
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			stintv1connect.LimitServiceCheckStreamProcedure)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := stream.SendMsg(
				&stintv1.CheckBatchRequest{Checks: []*stintv1.CheckRequest{plentyOf("stream")}}); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(&stintv1.CheckBatchResponse{}); err != nil {
				t.Errorf("a stream: %v", err)
			}
		}
	}
	for key, want := range map[string]uint64{"http": 2, "grpc": 2, "stream": 6} {
		if got := s.used(key); got != want {
			t.Errorf("%s: %d are counted, want %d", key, got, want)
		}
	}
	c := s.redis(nil)
	commands, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for range 1000 {
			p.Incr(t.Context(), "hits")
		}
		return nil
	})
	if err != nil || commands[999].(*redis.IntCmd).Val() != 1000 {
		t.Errorf("a pipeline: %v, %v", commands[len(commands)-1], err)
	}
}

// A client that speaks plaintext to a port with TLS is told so, as far as the protocol has words for it, and nothing is
// counted.
func TestPlaintextIsRefusedOnPortsWithTLS(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		for _, addr := range []string{s.APIAddr(), s.GRPCAddr()} {
			response, err := clientOf(s.Node).Post("http://"+addr+"/stint.v1.LimitService/Check", "application/json",
				strings.NewReader(`{"entries":[{"policy":"plenty","key":"clear"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			var failure struct{ Code, Message string }
			err = json.NewDecoder(response.Body).Decode(&failure)
			response.Body.Close()
			if response.StatusCode != 400 || failure.Code != "failed_precondition" ||
				!strings.Contains(failure.Message, "this port speaks TLS") || err != nil {
				t.Errorf("HTTP/1.1: %s, %+v, %v", response.Status, failure, err)
			}
			err = s.grpc(addr, insecure.NewCredentials()).Invoke(t.Context(), stintv1connect.LimitServiceCheckProcedure,
				plentyOf("clear"), &stintv1.CheckResponse{})
			if err == nil || !strings.Contains(err.Error(), "looked like an HTTP/1.1 header") {
				t.Errorf("gRPC: %v", err)
			}
		}
		c := s.redis(func(o *redis.Options) { o.TLSConfig = nil })
		if err := c.Incr(t.Context(), "clear").Err(); err == nil ||
			!strings.Contains(err.Error(), "this port speaks TLS") {
			t.Errorf("Redis: %v", err)
		}
		browser := s.ca.Trusting()
		browser.NextProtos = []string{"h2", "http/1.1"}
		if _, err := s.dial(s.RedisAddr(), browser); err == nil ||
			!strings.Contains(err.Error(), "application protocol") {
			t.Errorf("a browser that speaks to the Redis port: %v", err)
		}
		if used := s.used("clear"); used != 0 {
			t.Errorf("%d are counted", used)
		}
		if err := s.redis(nil).Get(t.Context(), "clear").Err(); err != redis.Nil {
			t.Errorf("the counter: %v", err)
		}
	})
}

func TestToolsSpeakTLS(t *testing.T) {
	t.Parallel()
	s := startSecured(t, nil)
	_, port, _ := net.SplitHostPort(s.RedisAddr())
	for _, test := range []struct {
		tool      string
		arguments []string
		want      string
	}{
		{"curl", []string{"-sS", "--cacert", s.files.CA, "https://" + s.APIAddr() + "/healthz"}, "ok"},
		{"curl", []string{"-sS", "--http1.1", "--tls-max", "1.2", "--cacert", s.files.CA,
			"https://" + s.APIAddr() + "/healthz"}, "ok"},
		{"openssl", []string{"s_client", "-brief", "-connect", s.APIAddr(), "-CAfile", s.files.CA,
			"-verify_return_error", "-alpn", "h2"}, "Verification: OK"},
		{"redis-cli", []string{"-p", port, "--tls", "--cacert", s.files.CA, "INCR", "hits"}, "1\n"},
		{"redis-cli", []string{"-p", port, "INCR", "hits"}, "this port speaks TLS"},
	} {
		t.Run(test.tool, func(t *testing.T) {
			path, err := exec.LookPath(test.tool)
			if err != nil {
				t.Skipf("%s is not installed: Debian's curl, openssl and redis-tools have these", test.tool)
			}
			out, err := exec.Command(path, test.arguments...).CombinedOutput()
			if !strings.Contains(string(out), test.want) {
				t.Errorf("%v: %q, %v", test.arguments, out, err)
			}
		})
	}
}

// A new certificate comes into use while clients connect and ask without rest, and none of them fails.
func TestACertificateIsRenewedUnderLoadAndNothingFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var load sync.WaitGroup
		var asked atomic.Int64
		worker := func(ask func() error) {
			load.Go(func() {
				for ctx.Err() == nil {
					if err := ask(); err != nil {
						t.Error(err)
						return
					}
					asked.Add(1)
					breathe()
				}
			})
		}
		kept, fresh := s.http(2), s.http(1)
		fresh.Transport.(*http.Transport).DisableKeepAlives = true
		worker(func() error { return s.check(kept, "kept") })
		worker(func() error { return s.check(fresh, "fresh") })
		worker(func() error {
			c := redis.NewClient(&redis.Options{Addr: s.RedisAddr(), TLSConfig: s.ca.Trusting(), MaxRetries: -1,
				DialerRetries: 1, Dialer: redisDialer(t, s.ca.Trusting())})
			defer c.Close()
			return c.Incr(context.Background(), "fresh").Err()
		})
		stopped := sync.OnceFunc(func() { cancel(); load.Wait() })
		defer stopped()
		dir := t.TempDir()
		for range 3 {
			before := s.serial()
			next := s.ca.Write(dir)
			// In the order that is wrong for a moment: the certificate before its key.
			for from, to := range map[string]string{next.Cert: s.files.Cert, next.Key: s.files.Key} {
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
			await.Until(t, "the new certificate is in use", func() bool { return s.serial() != before || t.Failed() })
			since := asked.Load()
			await.Until(t, "clients go on", func() bool { return asked.Load() > since+20 || t.Failed() })
		}
		stopped()
	})
}

// serial returns the serial number of the certificate that new connections see.
func (s *secured) serial() int64 {
	c, err := s.dial(s.APIAddr(), s.ca.Trusting())
	if err != nil {
		s.t.Error(err)
		return 0
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// A node that stops answers what came over TLS: what was answered is what was counted.
func TestAStopOverTLSFailsNoRequest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		var load sync.WaitGroup
		var answered, told, unknown atomic.Uint64
		begun := make(chan struct{}, 3)
		for _, version := range []int{1, 2} {
			client := s.http(version)
			load.Go(func() {
				for first := true; ; first = false {
					err := s.check(client, "http")
					if first {
						begun <- struct{}{}
					}
					if err != nil {
						if !strings.Contains(err.Error(), "connection refused") &&
							!strings.Contains(err.Error(), `"unavailable"`) {
							t.Errorf("HTTP/%d: %v", version, err)
						}
						return
					}
					answered.Add(1)
				}
			})
		}
		client := s.redis(nil)
		load.Go(func() {
			for first := true; ; first = false {
				err := client.Incr(context.Background(), "redis").Err()
				if first {
					begun <- struct{}{}
				}
				switch {
				case err == nil:
					told.Add(1)
					continue
				case strings.HasPrefix(err.Error(), "TRYAGAIN"):
					continue
				case !isDial(err):
					unknown.Add(1)
				}
				return
			}
		})
		for range 3 {
			<-begun
		}
		stop(t, s.Node)
		load.Wait()
		s.Node = nil // until it is started again
		s.Node = start(t, s.config)
		if used := s.used("http"); used != answered.Load() || used == 0 {
			t.Errorf("HTTP: %d were answered, %d are counted", answered.Load(), used)
		}
		counted, err := s.redis(nil).Get(t.Context(), "redis").Uint64()
		if err != nil || counted < told.Load() || counted > told.Load()+unknown.Load() || counted == 0 {
			t.Errorf("Redis: told %d, unknown %d, counted %d, %v", told.Load(), unknown.Load(), counted, err)
		}
	})
}

// Connections with unfinished handshakes keep no client out, and are closed after a while.
func TestHalfOpenConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		descriptors := connlimit.Descriptors()
		each := min(5000/2, connlimit.Share(descriptors).API*3/4, int(descriptors)/8) // both ends are in this process
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		probe := s.http(2)
		for i := range 2 * each {
			addr := s.APIAddr()
			if i%2 == 1 {
				addr = s.RedisAddr()
			}
			c, err := dialerOf(s.Node)(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
			if i%3 == 0 { // some begin it
				c.Write([]byte{handshake, 3, 1, 2, 0, 1, 0})
			}
		}
		fresh := s.http(1)
		for range 3 {
			for _, client := range []*http.Client{probe, fresh} {
				response, err := client.Get("https://" + s.APIAddr() + "/healthz")
				if err != nil {
					t.Fatalf("with %d half-open connections: %v", 2*each, err)
				}
				response.Body.Close()
				if response.StatusCode != 200 {
					t.Errorf("with %d half-open connections: %s", 2*each, response.Status)
				}
			}
			if err := s.redis(nil).Incr(t.Context(), "hits").Err(); err != nil {
				t.Error(err)
			}
		}
		for _, c := range conns {
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			if heard, err := io.ReadAll(c); len(heard) > 0 || os.IsTimeout(err) {
				t.Fatalf("a half-open connection hears %q, %v", heard, err)
			}
		}
	})
}

const handshake = 22 // the type of a TLS record

// A client that does not fit hears so in TLS, not in plaintext that it could not read.
func TestWhoDoesNotFitHearsAnAlert(t *testing.T) {
	ca := testcert.New(t)
	files := ca.Write(t.TempDir())
	logger := slog.New(slog.DiscardHandler)
	secure, err := clienttls.Load(clienttls.Files{Cert: files.Cert, Key: files.Key}, "", logger, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	limit := connlimit.New(connlimit.Config{Port: "test", Most: 1, Logger: logger, Observer: metrics.New(),
		Now: time.Now})
	p := &ports{secure: secure, limits: limits{api: limit, redis: limit}}
	for _, door := range []func() net.Listener{p.apiListener, p.redisListener} {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p.listener, p.redisPort = inner, inner
		listener := door()
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				serving.Go(func() { io.ReadAll(c) })
			}
		})
		first, err := tls.Dial("tcp", inner.Addr().String(), ca.Trusting())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tls.Dial("tcp", inner.Addr().String(), ca.Trusting()); err == nil ||
			!strings.Contains(err.Error(), "remote error: tls: internal error") {
			t.Errorf("it hears %v", err)
		}
		first.Close()
		listener.Close()
		serving.Wait()
	}
}

func TestStatusShowsWhenCertificatesExpire(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		status, err := s.Admin().Status(t.Context())
		if left := time.Until(status.Nodes[0].ApiCertificateEnds.AsTime()); err != nil || left < 29*24*time.Hour ||
			left > 30*24*time.Hour || len(status.Problems) > 0 {
			t.Errorf("%v left, problems %q, %v", left, status.Problems, err)
		}
		next := s.ca.Write(t.TempDir(), testcert.EndsIn(6*24*time.Hour+time.Hour))
		for from, to := range map[string]string{next.Cert: s.files.Cert, next.Key: s.files.Key} {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		want := "node " + s.ID() + ": its API certificate expires in 6 days, at "
		await.Until(t, "the expiry is a problem", func() bool {
			status, err := s.Admin().Status(t.Context())
			return err == nil && len(status.Problems) == 1 && strings.HasPrefix(status.Problems[0], want)
		})
	})
}

// An authority of roles that has expired among others that have not: nothing refuses the file, and nothing else would
// say so.
func TestStatusShowsAnAuthorityThatExpires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		s := startSecured(t, nil)
		text, err := os.ReadFile(s.files.CA)
		if err != nil {
			t.Fatal(err)
		}
		for left, want := range map[time.Duration]string{-time.Hour: " has expired, at ",
			6*24*time.Hour + time.Hour: " expires in 6 days, at "} {
			other, err := os.ReadFile(s.ca.Write(t.TempDir(), testcert.EndsIn(left)).Cert)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.files.CA, append(bytes.Clone(text), other...), 0o600); err != nil {
				t.Fatal(err)
			}
			want = "node " + s.ID() + ": an authority in its --api-client-ca file" + want
			await.Until(t, want, func() bool {
				status, err := s.Admin().Status(t.Context())
				return err == nil && len(status.Problems) == 1 && strings.HasPrefix(status.Problems[0], want)
			})
		}
		if said := expiryProblems("n1", "an authority", time.Time{}, time.Now(), ""); said != nil {
			t.Errorf("without a file: %q", said)
		}
	})
}

func TestWithTLSAPortMayBeReachedByOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log bytes.Buffer
		s := startSecured(t, func(c *Config) {
			c.APIAddr, c.GRPCAddr, c.RedisAddr = "0.0.0.0:0", "[::]:0", ":0"
			c.Advertise = "stint.example.com"
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		stop(t, s.Node)
		s.Node = nil
		if text := log.String(); strings.Count(text, "will not accept it") != 1 ||
			!strings.Contains(text, "stint.example.com") {
			t.Errorf("the log does not say that the certificate names another host:\n%s", text)
		}
	})
}

func TestANodeDoesNotStartWithACertificateThatItCannotUse(t *testing.T) {
	ca := testcert.New(t)
	good, expired := ca.Write(t.TempDir()), ca.Write(t.TempDir(), testcert.EndsIn(-time.Hour))
	for want, files := range map[string]clienttls.Files{
		"expired":                    {Cert: expired.Cert, Key: expired.Key},
		"private key does not match": {Cert: good.Cert, Key: expired.Key},
		"no such file":               {Cert: good.Cert, Key: good.Key, CAs: "none"},
	} {
		config := testConfig(t)
		config.ClientTLS = &files
		n, err := Start(t.Context(), config)
		if err == nil {
			stop(t, n)
		}
		if err == nil || !strings.Contains(err.Error(), ErrConfig.Error()+": api-cert: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
