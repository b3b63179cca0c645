package notify

import (
	"context"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	noon     = time.Unix(1_700_000_000, 0)
	loopback = netip.MustParsePrefix("127.0.0.0/8")
)

// receiver is a webhook's server with a certificate that its Poster trusts.
type receiver struct {
	*httptest.Server
	poster *Poster
	sink   *Sink
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{Server: httptest.NewUnstartedServer(answer)}
	r.Config.ErrorLog = quiet()
	r.StartTLS()
	t.Cleanup(r.Close)
	roots := x509.NewCertPool()
	roots.AddCert(r.Certificate())
	r.poster = NewPoster(Config{Allow: []netip.Prefix{loopback}, Roots: roots, Now: func() time.Time { return noon }})
	t.Cleanup(r.poster.Close)
	r.sink = &Sink{Name: "billing", Kind: Webhook, URL: r.URL + "/secret-path",
		Secrets: []Secret{{Key: []byte("0123456789")}}}
	return r
}

var message = Message{ID: "evt_1", ContentType: "application/json", Body: []byte(`{"type":"x"}`)}

func (r *receiver) post(t *testing.T) Outcome { return r.poster.Post(t.Context(), r.sink, message) }

func TestAMessageArrivesAsItIs(t *testing.T) {
	seen := make(chan *http.Request, 1)
	r := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		seen <- r
	})
	r.sink.Rotate(Secret{Key: []byte("newer")}, time.Hour, noon)
	if o := r.post(t); o != (Outcome{End: Delivered}) {
		t.Fatal(o)
	}
	got := <-seen
	body, _ := io.ReadAll(got.Body)
	want := map[string]string{"webhook-id": "evt_1", "webhook-timestamp": "1700000000",
		"content-type": "application/json", "webhook-signature": Signature(r.sink.Secrets, "evt_1", noon.Unix(),
			message.Body)}
	for name, value := range want {
		if got.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if got.Method != "POST" || string(body) != string(message.Body) ||
		len(strings.Fields(want["webhook-signature"])) != 2 {
		t.Errorf("%s %q, signed %q", got.Method, body, want["webhook-signature"])
	}
}

func TestOnlySuccessIsSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		end    End
		why    string
		after  time.Duration
	}{
		"204": {status(204), Delivered, "", 0},
		"202": {status(202), Delivered, "", 0},
		"500": {status(500), Again, "500", 0},
		"400": {status(400), Again, "400", 0},
		"404": {status(404), Again, "404", 0},
		"410": {status(410), Gone, "410", 0},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, Again, "redirects are not followed", 0},
		"429":       {later(429, "120"), Again, "429", 2 * time.Minute},
		"429 at":    {later(429, noon.Add(time.Hour).UTC().Format(http.TimeFormat)), Again, "429", time.Hour},
		"429 ever":  {later(429, "99999999"), Again, "429", retryMost},
		"429 bad":   {later(429, "soon"), Again, "429", 0},
		"503":       {later(503, " 7 "), Again, "503", 7 * time.Second},
		"500 later": {later(500, "7"), Again, "500", 0}, // the header is not for that status
		"closes": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Again,
			"closed the connection", 0},
		"closes twice": {hijack(""), Again, "closed the connection", 0},
		"no HTTP":      {hijack("SSH-2.0-OpenSSH\r\n\r\n"), Again, "malformed HTTP", 0},
		"huge header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", headerMost))
		}, Again, "header", 0},
		"huge body": {func(w http.ResponseWriter, _ *http.Request) { io.CopyN(w, endless{}, 64<<20) },
			Delivered, "", 0},
		"slow body": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-r.Context().Done() // until it is cut
		}, Delivered, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, c.answer)
			o := r.post(t)
			if o.End != c.end || !strings.Contains(o.Why, c.why) || o.After != c.after ||
				(o.Why == "") != (c.end == Delivered) {
				t.Errorf("got %+v", o)
			}
			if strings.Contains(o.Why, "secret-path") {
				t.Errorf("the address is told: %q", o.Why)
			}
		})
	}
}

// A 400 of Stripe or a receiver of CloudEvents is about this message. A webhook may mean anything by it.
func TestAnAnswerMeansWhatItsReceiverMeans(t *testing.T) {
	for kind, want := range map[string]map[int]End{
		Webhook:     {400: Again, 401: Again, 410: Gone, 204: Delivered, 500: Again},
		Stripe:      {400: Refused, 401: Again, 410: Again, 200: Delivered, 500: Again},
		CloudEvents: {400: Refused, 401: Again, 410: Gone, 204: Delivered, 500: Again},
	} {
		for code, end := range want {
			r := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
				if bearer := r.Header.Get("Authorization"); (kind == Webhook) != (bearer == "") ||
					(kind == Webhook) != (r.Header.Get("webhook-id") != "") {
					t.Errorf("%s: %v", kind, r.Header)
				}
				w.WriteHeader(code)
			})
			r.sink.Kind = kind
			if o := r.post(t); o.End != end {
				t.Errorf("%s answers %d: %+v", kind, code, o)
			}
		}
	}
}

// A receiver that has a message already has it from an earlier try: that is a success, and no refusal.
func TestWhatIsThereAlreadyWasDelivered(t *testing.T) {
	const exists = `{"error":{"type":"invalid_request_error","message":"An event already exists with ` +
		`identifier evt_1."}}`
	for _, c := range []struct {
		kind  string
		code  int
		body  string
		retry bool
		end   End
	}{
		{Stripe, 400, exists, true, Delivered},
		{Stripe, 400, exists, false, Delivered}, // another owner sent it
		{Stripe, 400, `{"error":{"code":"duplicate_meter_event","message":"a duplicate identifier"}}`, true, Delivered},
		{Stripe, 400, strings.Replace(exists, "evt_1", "evt_2", 1), true, Refused},
		{Stripe, 400, `{"error":{"message":"No such customer: evt_1"}}`, true, Refused},
		{Stripe, 400, "evt_1 already exists", true, Refused},
		{Stripe, 409, exists, true, Again}, // two requests at once: it says nothing about the event
		{Webhook, 409, "", true, Delivered},
		{Webhook, 409, "", false, Again},
		{Webhook, 400, exists, true, Again},
		{CloudEvents, 409, "", true, Known},
		{CloudEvents, 409, "", false, Again},
	} {
		r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.code)
			io.WriteString(w, c.body)
		})
		r.sink.Kind = c.kind
		m := message
		m.Retry = c.retry
		if o := r.poster.Post(t.Context(), r.sink, m); o.End != c.end {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}

// Only the body of Stripe's 400 tells a copy from a refusal. One that did not arrive tells nothing: the next try hears
// it.
func TestARefusalWithoutItsReasonIsNone(t *testing.T) {
	for kind, end := range map[string]End{Stripe: Again, CloudEvents: Refused} {
		r := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"message":"An event already exists`)
			w.(http.Flusher).Flush()
			<-r.Context().Done() // until it is cut
		})
		r.sink.Kind = kind
		if o := r.post(t); o.End != end || !strings.Contains(o.Why, "400") {
			t.Errorf("%s: %+v", kind, o)
		}
	}
}

// endsWhenCut is an answer whose receiver notices that it is cut off, and ends it properly. TLS tells a receiver so,
// and the end may arrive before the connection is closed.
type endsWhenCut struct {
	io.Reader
	cut chan struct{}
}

func (e endsWhenCut) Read(into []byte) (int, error) {
	if n, err := e.Reader.Read(into); err == nil {
		return n, nil
	}
	<-e.cut
	return 0, io.EOF
}

func (e endsWhenCut) Close() error {
	select {
	case <-e.cut:
	default:
		close(e.cut)
	}
	return nil
}

func TestAnAnswerThatEndsBecauseItIsCutIsNotWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := endsWhenCut{strings.NewReader("An event already"), make(chan struct{})}
		if text, whole := readAway(begun); string(text) != "An event already" || whole {
			t.Errorf("read %q, whole %v", text, whole)
		}
		if text, whole := readAway(io.NopCloser(strings.NewReader("all of it"))); string(text) != "all of it" || !whole {
			t.Errorf("read %q, whole %v", text, whole)
		}
	})
}

func TestAHangingReceiverIsLeft(t *testing.T) {
	r := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	r.poster.config.Timeout = 50 * time.Millisecond
	if o := r.post(t); o.End != Again || !strings.Contains(o.Why, "no answer within 50ms") {
		t.Errorf("got %+v", o)
	}
	r.poster.config.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := r.poster.Post(ctx, r.sink, message); o.End != Broken {
		t.Errorf("a try that the node stops: %+v", o)
	}
}

func TestAWrongCertificateIsAFailure(t *testing.T) {
	r := newReceiver(t, status(200))
	for name, change := range map[string]func(){
		"an unknown authority": func() {
			r.poster = NewPoster(Config{Allow: []netip.Prefix{loopback}, Roots: x509.NewCertPool()})
		},
		"another name": func() {
			r.sink.URL = strings.Replace(r.URL, "127.0.0.1", "127.0.0.2", 1)
		},
	} {
		change()
		if o := r.post(t); o.End != Again || o.Why == "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestALongMessageIsRefusedHere(t *testing.T) {
	r := newReceiver(t, status(200))
	if o := r.poster.Post(t.Context(), r.sink, Message{ID: "evt_1", Body: make([]byte, BodyMost)}); o.End != Refused {
		t.Errorf("got %+v", o)
	}
}

func TestNoProxyIsUsed(t *testing.T) {
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)
	r := newReceiver(t, status(200))
	// the environment is read once a process, and never for loopback
	if r.secureTransport().Proxy != nil || r.plainTransport().Proxy != nil {
		t.Error("there is a proxy")
	}
	if o := r.post(t); o.End != Delivered || asked.Load() != 0 {
		t.Errorf("got %+v, and the proxy was asked %d times", o, asked.Load())
	}
}

func (r *receiver) secureTransport() *http.Transport {
	return r.poster.secure.Transport.(*http.Transport)
}
func (r *receiver) plainTransport() *http.Transport {
	return r.poster.plain.Transport.(*http.Transport)
}

func TestOnlyPublicAddressesAreReached(t *testing.T) {
	list := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}
	for text, want := range map[string]string{
		"93.184.216.34": "secure", "2606:4700::1111": "secure", "::ffff:93.184.216.34": "secure",
		"10.1.2.3": "all", "::ffff:10.1.2.3": "all", "fd00:1::5": "all",
		"127.0.0.1": "", "127.8.8.8": "", "::1": "", "::": "", "0.0.0.0": "", "0.1.2.3": "", "10.2.0.1": "",
		"172.16.0.1": "", "172.31.255.255": "",
		"192.168.1.1": "", "169.254.169.254": "", "fe80::1": "", "fe80::1%eth0": "", "fd00:ec2::254": "", "fc00::1": "",
		"100.64.0.1":      "",
		"100.127.255.255": "", "100.100.100.200": "", "192.0.0.192": "", "224.0.0.1": "", "239.1.1.1": "",
		"255.255.255.255": "", "240.0.0.1": "",
		"ff02::1": "", "::ffff:127.0.0.1": "", "::ffff:169.254.169.254": "", "64:ff9b::7f00:1": "", "2002:7f00:1::": "",
		"2001::1": "", "2001:db8::1": "", "198.18.0.1": "", "::127.0.0.1": "", "fec0::1": "",
	} {
		addr := netip.MustParseAddr(text)
		secure, plain := addressProblem(list, addr, false) == nil, addressProblem(list, addr, true) == nil
		if secure != (want != "") || plain != (want == "all") {
			t.Errorf("%s: with TLS %v, without %v", text, secure, plain)
		}
	}
}

// A name that is harmless when the sink is made, or at the first try, and then is this machine's own.
func TestANameThatTurnsInwardsGainsNothing(t *testing.T) {
	var asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inside.Close()
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	outside := listenAt(t, "127.0.0.2:"+port)
	go outside.Serve()
	var inwards atomic.Bool
	resolver := dnsServer(t, func() netip.Addr {
		if inwards.Load() {
			return netip.MustParseAddr("127.0.0.1")
		}
		return netip.MustParseAddr("127.0.0.2")
	})
	p := NewPoster(Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolve: resolver})
	defer p.Close()
	sink := &Sink{Name: "evil", Kind: Webhook, URL: "http://rebind.example:" + port + "/",
		Secrets: []Secret{{Key: []byte("k")}}}
	if o := p.Post(t.Context(), sink, message); o.End != Delivered {
		t.Fatalf("while it is harmless: %+v", o)
	}
	p.Close() // the next try asks the name again
	inwards.Store(true)
	o := p.Post(t.Context(), sink, message)
	if o.End != Again || !strings.Contains(o.Why, "--sink-allow") || asked.Load() > 0 {
		t.Errorf("turned inwards: %+v, and the machine's own server was asked %d times", o, asked.Load())
	}
}

// dnsServer answers questions for IPv4 addresses that must not be cached.
func dnsServer(t *testing.T, answer func() netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-ended })
	go func() {
		defer close(ended)
		packet := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			end := 12 + slices.Index(packet[12:n], 0) + 5 // the question: labels, type, class
			reply := slices.Clone(packet[:end])
			reply[2], reply[3] = 0x81, 0x80
			a := binary.BigEndian.Uint16(reply[end-4:]) == 1
			binary.BigEndian.PutUint16(reply[6:], 0)
			binary.BigEndian.PutUint32(reply[8:], 0)
			if a {
				binary.BigEndian.PutUint16(reply[6:], 1)
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				reply = append(reply, answer().AsSlice()...)
			}
			conn.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// server is an HTTP server on one address.
type server struct {
	*http.Server
	listener net.Listener
}

func listenAt(t *testing.T, addr string) server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := server{&http.Server{Handler: status(200)}, l}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s server) Serve() { s.Server.Serve(s.listener) }

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func later(code int, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(code)
	}
}

// hijack answers with these bytes, and closes the connection.
func hijack(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			io.WriteString(conn, text)
			conn.Close()
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
