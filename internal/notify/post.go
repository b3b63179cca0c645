package notify

import (
	"bytes"
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

// Timeout bounds one try, from the connection to the last byte that is read of the answer.
const Timeout = 15 * time.Second

// BodyMost is less than what a message may have by Standard Webhooks.
const BodyMost = 20 << 10

const (
	answerMost   = 16 << 10    // bytes that are read of an answer's body
	answerWithin = time.Second // how long they are read
	headerMost   = 16 << 10    // bytes of an answer's header
	retryMost    = 24 * time.Hour
)

// Config configures a Poster. Zero values are documented.
type Config struct {
	Allow   []netip.Prefix                                              // addresses that are reached besides those of the Internet, with or without TLS
	Roots   *x509.CertPool                                              // authorities; nil: the system's
	Resolve *net.Resolver                                               // nil: the system's
	Dial    func(ctx context.Context, address string) (net.Conn, error) // connects to an address that is allowed; nil: TCP
	Now     func() time.Time                                            // of timestamps; nil: time.Now
	Agent   string                                                      // User-Agent; "": stint
	Timeout time.Duration                                               // of one try; 0: Timeout
}

// Message is one event in its form on the wire.
type Message struct {
	ID          string // for ever the same for this event: receivers count it once
	ContentType string
	Body        []byte
	Retry       bool // it was sent before, and may have been taken
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
	if c.Agent == "" {
		c.Agent = "stint"
	}
	if c.Timeout == 0 {
		c.Timeout = Timeout
	}
	p := &Poster{config: c}
	p.secure, p.plain = p.client(false), p.client(true)
	return p
}

// client makes the client for connections with or without TLS. It asks nobody on the way: the environment names proxies for what a
// user does, and an answer names other places.
func (p *Poster) client(plain bool) *http.Client {
	allow := allowList(p.config.Allow)
	check := func(address string) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return allow.check(to.Addr(), plain)
	}
	dialer := &net.Dialer{Timeout: p.config.Timeout, Resolver: p.config.Resolve,
		Control: func(_, address string, _ syscall.RawConn) error { return check(address) }}
	dial := dialer.DialContext
	if p.config.Dial != nil {
		dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			if err := check(address); err != nil {
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

// Transport reaches the addresses that sinks may have, for others who ask what operators name. It is closed with the Poster.
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

// End is how a try ended.
type End uint8

// Ends of tries.
const (
	Again     End = iota // not taken: try again
	Delivered            // taken
	Gone                 // the receiver wants nothing any more
	Refused              // no further try can help: the receiver does not take it (400), or the sender's own rules do not
	Broken               // this node stopped the try: it says nothing about the sink
	Known                // only of a retry to CloudEvents: it has one of the events already, and took none of the others
)

// Outcome is how a try ended, and why.
type Outcome struct {
	End   End
	After time.Duration // Again: how long the receiver wants to be left alone; 0: it did not say
	Why   string        // without secrets, for people; "" if Delivered
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

// request makes the request of a try.
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

// readAway reads a short answer to its end, so that its connection can be used again. A long or slow one is cut.
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
		return Outcome{Why: fmt.Sprintf("it answered %d: redirects are not followed, so give the sink the address that it redirects to", code)}
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return Outcome{After: retryAfter(answer.Header.Get("Retry-After"), p.config.Now()), Why: fmt.Sprintf("it answered %d", code)}
	}
	return Outcome{Why: fmt.Sprintf("it answered %d", code)}
}

// isThereAlready reports whether Stripe refuses an event because it has one with this identifier. Nobody else makes such identifiers, so
// it is an earlier copy of the same event, whose answer was lost or came to another owner.
func isThereAlready(m Message, body []byte) bool {
	var answer struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(body, &answer) != nil {
		return false
	}
	e := answer.Error
	return e.Code == "duplicate_meter_event" || strings.Contains(e.Message, "already exists") && strings.Contains(e.Message, m.ID)
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(text string, now time.Time) (after time.Duration) {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		after = at.Sub(now)
	}
	return min(max(after, 0), retryMost)
}

// whyNot is an error without the address, which may have secrets in its path.
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
