package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// Timeout bounds one attempt, from the connection to the last byte read of the answer.
const Timeout = 15 * time.Second

// BodyMost bounds a body in bytes: it has fewer. Standard Webhooks allows more.
const BodyMost = 20 << 10

const (
	answerMost   = 16 << 10    // bytes read of an answer's body
	answerWithin = time.Second // time to read them
	headerMost   = 16 << 10    // bytes of an answer's header
	retryMost    = 24 * time.Hour
)

// Config configures a Poster. Zero values have defaults.
type Config struct {
	// Allow has addresses that are reached besides those of the Internet, with or without TLS.
	Allow   []netip.Prefix
	Roots   *x509.CertPool                                              // authorities; nil means the system's
	Resolve *net.Resolver                                               // nil means the system's
	Dial    func(ctx context.Context, address string) (net.Conn, error) // connects to an allowed address; nil means TCP
	Now     func() time.Time                                            // for timestamps; nil means time.Now
	Agent   string                                                      // User-Agent; "" means stint
	Timeout time.Duration                                               // of one attempt; 0 means Timeout
}

// Message is one event in its form on the wire.
type Message struct {
	ID          string // never changes for an event: receivers count it once
	ContentType string
	Body        []byte // less than BodyMost bytes
	Retry       bool   // it was sent before, and may have been accepted
}

// Poster sends messages. It may be used concurrently.
type Poster struct {
	config        Config
	secure, plain *http.Client
}

// NewPoster makes a Poster.
func NewPoster(c Config) *Poster {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Agent, c.Timeout = cmp.Or(c.Agent, "stint"), cmp.Or(c.Timeout, Timeout)
	p := &Poster{config: c}
	p.secure, p.plain = p.client(false), p.client(true)
	return p
}

// client makes the client for connections with or without TLS. It uses no proxy and follows no redirect: proxies in the
// environment are for users, and redirects lead to other places.
func (p *Poster) client(plain bool) *http.Client {
	checked := func(address string) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return addressProblem(p.config.Allow, to.Addr(), plain)
	}
	dialer := &net.Dialer{Timeout: p.config.Timeout, Resolver: p.config.Resolve,
		Control: func(_, address string, _ syscall.RawConn) error { return checked(address) }}
	dial := dialer.DialContext
	if p.config.Dial != nil {
		dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			if err := checked(address); err != nil {
				return nil, err
			}
			return p.config.Dial(ctx, address)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dial,
			TLSClientConfig:        &tls.Config{RootCAs: p.config.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    p.config.Timeout,
			MaxResponseHeaderBytes: headerMost,
			IdleConnTimeout:        30 * time.Second,
			MaxIdleConnsPerHost:    2,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Transport reaches the addresses that sinks may have, for other code that fetches operators' URLs. It is closed with
// the Poster.
func (p *Poster) Transport() http.RoundTripper { return transport{p} }

type transport struct{ *Poster }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.of(r).Transport.RoundTrip(r)
}

// of returns the client for a request.
func (p *Poster) of(r *http.Request) *http.Client {
	if r.URL.Scheme == "http" {
		return p.plain
	}
	return p.secure
}

// Close ends idle connections.
func (p *Poster) Close() {
	p.secure.CloseIdleConnections()
	p.plain.CloseIdleConnections()
}

// Post sends a message to a sink once. It returns within Config.Timeout, and with End Broken if ctx ends before an
// answer has come.
func (p *Poster) Post(ctx context.Context, s *Sink, m Message) Outcome {
	within, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	request, err := p.request(within, s, m)
	if err != nil {
		return Outcome{End: Refused, Why: err.Error()}
	}
	answer, err := p.of(request).Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{End: Broken, Why: "the node stopped it"}
		}
		return Outcome{Why: p.whyNot(err)}
	}
	body, whole := readAway(answer.Body)
	return p.judge(s, m, answer, body, whole)
}

// request makes the request of an attempt.
func (p *Poster) request(ctx context.Context, s *Sink, m Message) (*http.Request, error) {
	if len(m.Body) >= BodyMost {
		return nil, fmt.Errorf("the message has %d bytes, and webhooks have less than %d", len(m.Body), BodyMost)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(m.Body))
	if err != nil {
		return nil, errors.New("the address cannot be read")
	}
	r.Header.Set("User-Agent", p.config.Agent)
	r.Header.Set("Content-Type", m.ContentType)
	now := p.config.Now()
	if s.Kind != Webhook {
		if len(s.Secrets) > 0 {
			r.Header.Set("Authorization", "Bearer "+string(s.Secrets[0].Key))
		}
		return r, nil
	}
	r.Header["webhook-id"] = []string{m.ID} // as the specification spells them
	r.Header["webhook-timestamp"] = []string{strconv.FormatInt(now.Unix(), 10)}
	r.Header["webhook-signature"] = []string{Signature(s.SecretsAt(now), m.ID, now.Unix(), m.Body)}
	return r, nil
}

// readAway reads a short answer to its end, so that its connection can be used again. A long or slow answer is cut off.
// whole is false if it broke off, or was too slow: a receiver that notices the cut may still end its answer properly.
func readAway(body io.ReadCloser) (text []byte, whole bool) {
	cut := time.AfterFunc(answerWithin, func() { body.Close() })
	text, err := io.ReadAll(io.LimitReader(body, answerMost))
	inTime := cut.Stop()
	body.Close()
	return text, err == nil && inTime //mutant:cut-answer-is-whole
}
