package gates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/jwks"
	"github.com/stint-io/stint/internal/gate"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// The types of problem documents (RFC 9457), of draft-ietf-httpapi-ratelimit-headers section 5.
const (
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// Unchecked is the text for a visitor without a decision.
const Unchecked = "The request was not carried out, since its limits could not be checked. Try again."

// problemChallenge is our own type, as there is no registered one.
const problemChallenge = "urn:stint:problem:challenge"

// FailedHeader marks a request that passes without a decision.
const FailedHeader = "Stint-Failed"

// outcomeHeader marks a 403 that asks for a challenge, even where ?deny=403 gives every answer this status.
const outcomeHeader = "X-Stint-Outcome"

// problem is a problem document. Without a type, the status alone describes the problem (RFC 9457, 4.2.1). Visitors
// read it.
type problem struct {
	Type             string   `json:"type,omitempty"`
	Title            string   `json:"title"`
	Status           int      `json:"status"` // also where the answer is masked
	Detail           string   `json:"detail,omitempty"`
	Code             string   `json:"code,omitempty"`              // ours, for programs: of a challenge alone
	ViolatedPolicies []string `json:"violated-policies,omitempty"` // policy/limit, as in Decision.denied_by
}

// answer writes the answer of a gate. For nginx, which accepts only 2xx, 401 and 403, an answer can be masked: its
// status is 403, and headers carry the real one.
type answer struct {
	w      http.ResponseWriter
	codeOf func(error) connect.Code // nil only in Refuse
	masked bool
	denied *policy.GateBody // the gate's own body of a denial; nil means a problem document
}

// pass lets the request through, with the headers of the decision.
func (a *answer) pass(headers map[string]string) {
	a.headers(headers)
	a.w.Header().Set("Cache-Control", "no-store")
	a.w.WriteHeader(http.StatusOK)
}

// headers sets the headers of a decision, and lets scripts of other origins read them.
func (a *answer) headers(headers map[string]string) {
	if len(headers) == 0 {
		return
	}
	for name, value := range headers {
		a.w.Header().Set(name, value)
	}
	a.w.Header().Set("Access-Control-Expose-Headers", strings.Join(slices.Sorted(maps.Keys(headers)), ", "))
}

// deny answers a denied request. A challenge is always a problem document with a code for programs.
func (a *answer) deny(d *stintv1.Decision) {
	a.headers(d.GetHeaders())
	if d.GetOutcome() == stintv1.Outcome_OUTCOME_CHALLENGE { //mutant:challenge-looks-like-denial
		a.w.Header().Set(outcomeHeader, "challenge")
		a.document(problem{Type: problemChallenge, Title: "Challenge required", Status: http.StatusForbidden,
			Detail: d.GetReason(), Code: "challenge", ViolatedPolicies: d.GetDeniedBy()})
		return
	}
	if a.denied == nil {
		a.document(problem{Type: problemQuota, Title: "Too many requests", Status: http.StatusTooManyRequests,
			Detail: d.GetReason(), ViolatedPolicies: d.GetDeniedBy()})
		return
	}
	reason, wait := d.GetReason(), d.GetHeaders()["Retry-After"]
	if strings.Contains(strings.ToLower(a.denied.ContentType), "json") {
		text := jsonText(reason)
		reason, wait = string(text[1:len(text)-1]), cmp.Or(wait, "null") // a number would be a wait that helps
	}
	a.write(http.StatusTooManyRequests, a.denied.ContentType,
		[]byte(strings.NewReplacer("{retry_after}", wait, "{reason}", reason).Replace(a.denied.Body)))
}

// refuse answers a request that cannot be counted, and returns its code.
func (a *answer) refuse(r *gate.Refusal) (code string) {
	if r.Status == http.StatusUnauthorized {
		a.w.Header().Set("WWW-Authenticate", "Bearer")
		a.problem(r.Status, "", r.Detail)
		return connect.CodeUnauthenticated.String()
	}
	a.problem(r.Status, "", r.Detail)
	return connect.CodeInvalidArgument.String()
}

// undecided answers a question without a decision, and returns its code. A failure of ours is no denial, and passes
// only what may fail open.
func (a *answer) undecided(err error, open bool) (code string) {
	var refusal *gate.Refusal
	var failure *shard.Error
	switch {
	case errors.As(err, &refusal):
		return a.refuse(refusal)
	case errors.As(err, &failure) && failure.Code == shard.KeyNotFound:
		a.problem(http.StatusForbidden, "", "The sender is not known.")
		return connect.CodePermissionDenied.String()
	case open && a.mayOpen(err): //mutant:closed-fails-open //mutant:unauthorized-proxy-opens
		a.w.Header().Set(FailedHeader, "open")
		a.pass(nil)
		return "failed_open"
	}
	a.w.Header().Set("Retry-After", "1")
	a.problem(http.StatusServiceUnavailable, problemCapacity, Unchecked)
	if errors.Is(err, jwks.ErrNoKeys) {
		return connect.CodeUnavailable.String()
	}
	return a.codeOf(err).String()
}

// mayOpen reports whether an error means that no decision was possible. Any other error concerns the request, the
// gate's rules or the proxy's token: if it opened the gate, a client that finds such a request would pass uncounted.
// Neither does a lack of room for new keys open it: a client that makes that many keys would open the gate for all
// clients after it.
func (a *answer) mayOpen(err error) bool {
	var failure *shard.Error
	if errors.As(err, &failure) && failure.Code == shard.MemoryFull { //mutant:full-shard-opens
		return false
	}
	switch a.codeOf(err) {
	case connect.CodeUnavailable, connect.CodeAborted, connect.CodeDeadlineExceeded, connect.CodeInternal:
		return true
	}
	return false
}

// problem answers with a problem document about a status. kind is its type, or "".
func (a *answer) problem(status int, kind, detail string) {
	a.document(problem{Type: kind, Title: http.StatusText(status), Status: status, Detail: detail})
}

func (a *answer) document(p problem) { a.write(p.Status, "application/problem+json", jsonText(p)) }

// jsonText writes JSON on one line.
func jsonText(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // text and numbers cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// maskedBytesMax bounds the body in a header.
const maskedBytesMax = 1 << 10

// write writes an answer other than 2xx.
func (a *answer) write(status int, contentType string, body []byte) {
	h := a.w.Header()
	h.Set("Cache-Control", "no-store") // RFC 6585: a 429 must not be stored
	if a.masked && status != http.StatusUnauthorized {
		h.Set("X-Stint-Status", strconv.Itoa(status))
		h.Set("X-Stint-Body", oneLine(string(body)))
		status = http.StatusForbidden
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	a.w.WriteHeader(status)
	_, _ = a.w.Write(body) // a proxy that has gone needs no answer
}

// oneLine makes text fit a header: control characters become spaces, and a long text is cut.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > maskedBytesMax {
		return strings.ToValidUTF8(text[:maskedBytesMax-len("...")], "") + "..." // without a character that is cut
	}
	return strings.ToValidUTF8(text, "\ufffd")
}
