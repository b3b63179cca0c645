package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

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

// judge returns how an answered attempt has ended. If body is not whole, the reason for a refusal may be missing in it.
func (p *Poster) judge(s *Sink, m Message, answer *http.Response, body []byte, whole bool) Outcome {
	code := answer.StatusCode
	switch {
	case s.Kind == Stripe && code == http.StatusBadRequest && isThereAlready(m, body): //mutant:own-retry-refused
		return Outcome{End: Delivered}
	case s.Kind == Stripe && code == http.StatusBadRequest && !whole: //mutant:refused-without-a-reason
		return Outcome{Why: "it answered 400, and broke off before it said why"}
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

// retryAfter reads a Retry-After header: seconds, or a date. It returns 0 for any other text, and at most retryMost.
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
