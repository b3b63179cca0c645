package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Timeout bounds one attempt, from the connection to the last byte read of the answer.
const Timeout = 15 * time.Second

// BodyMost bounds a body in bytes. Standard Webhooks allows more.
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
	Body        []byte
	Retry       bool // it was sent before, and may have been accepted
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
		return check(p.config.Allow, to.Addr(), plain)
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

// End is how an attempt ended.
type End uint8

// Ends of attempts.
const (
	Again     End = iota // not accepted: try again
	Delivered            // accepted
	Gone                 // the receiver wants no more events
	Refused              // no further attempt can help: the receiver rejects it (400), or the sender's own rules do
	Broken               // this node stopped the attempt, which implies nothing about the sink
	// Known is only for a retry to CloudEvents: it has one of the events already, and accepted none of the others.
	Known
)

// Outcome is how an attempt ended, and why.
type Outcome struct {
	End   End
	After time.Duration // Again: how long the receiver asks to wait; 0 if it did not
	Why   string        // without secrets, for display; "" if Delivered
}

// Post sends a message to a sink once. It returns within Config.Timeout.
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
	return p.judge(s, m, answer, readAway(answer.Body))
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
func readAway(body io.ReadCloser) []byte {
	cut := time.AfterFunc(answerWithin, func() { body.Close() })
	text, _ := io.ReadAll(io.LimitReader(body, answerMost))
	cut.Stop()
	body.Close()
	return text
}

func (p *Poster) judge(s *Sink, m Message, answer *http.Response, body []byte) Outcome {
	code := answer.StatusCode
	switch {
	case s.Kind == Stripe && code == http.StatusBadRequest && isThereAlready(m, body): //mutant:own-retry-refused
		return Outcome{End: Delivered}
	case s.Kind == Webhook && code == http.StatusConflict && m.Retry: //mutant:first-conflict-delivers
		return Outcome{End: Delivered}
	case s.Kind == CloudEvents && code == http.StatusConflict && m.Retry:
		return Outcome{End: Known, Why: "it answered 409: it has it already"}
	case s.Kind == Stripe && code == http.StatusBadRequest: //mutant:refused-bill-blocks-others
		return Outcome{End: Refused, Why: "it answered 400: Stripe does not take this event; its dashboard says why"}
	case s.Kind == CloudEvents && code == http.StatusBadRequest:
		return Outcome{End: Refused, Why: "it answered 400: it does not take this"}
	case code >= 200 && code < 300:
		return Outcome{End: Delivered}
	case code == http.StatusGone && s.Kind != Stripe:
		return Outcome{End: Gone, Why: "it answered 410: it wants nothing any more"}
	case code >= 300 && code < 400:
		return Outcome{Why: fmt.Sprintf("it answered %d: redirects are not followed, "+
			"so give the sink the address that it redirects to", code)}
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return Outcome{After: retryAfter(answer.Header.Get("Retry-After"), p.config.Now()),
			Why: fmt.Sprintf("it answered %d", code)}
	}
	return Outcome{Why: fmt.Sprintf("it answered %d", code)}
}

// isThereAlready reports whether Stripe refuses an event because it has one with this identifier. Only stint makes such
// identifiers, so it is an earlier copy of the same event: its answer was lost or went to another owner.
func isThereAlready(m Message, body []byte) bool {
	var answer struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(body, &answer) != nil {
		return false
	}
	e := answer.Error
	return e.Code == "duplicate_meter_event" || strings.Contains(e.Message, "already exists") &&
		strings.Contains(e.Message, m.ID)
}

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(text string, now time.Time) (after time.Duration) {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		after = at.Sub(now)
	}
	return min(max(after, 0), retryMost)
}

// whyNot returns an error's text without the address, which may have secrets in its path.
func (p *Poster) whyNot(err error) string {
	var outer *url.Error
	if errors.As(err, &outer) {
		if outer.Timeout() {
			return fmt.Sprintf("there was no answer within %v", p.config.Timeout)
		}
		err = outer.Err
	}
	if errors.Is(err, io.EOF) {
		return "it closed the connection without an answer"
	}
	return err.Error()
}
