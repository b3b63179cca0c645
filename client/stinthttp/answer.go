package stinthttp

import (
	"encoding/json"
	"errors"
	"net/http"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// problem is a problem document: RFC 9457, with the types of draft-ietf-httpapi-ratelimit-headers section 5.
type problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail,omitempty"`
	Code             string   `json:"code,omitempty"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	challenge       = "urn:stint:problem:challenge"
	noType          = "about:blank" // RFC 9457, 4.2.1: the status alone describes the problem
)

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store") // RFC 6585: a 429 must not be stored
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that has gone needs no answer
}

// Denied answers a denied request with 429 and a problem document, with the policy's reason as its detail. It answers a
// challenge with 403, and a document with the code "challenge".
func Denied(w http.ResponseWriter, _ *http.Request, d *stintv1.Decision) {
	if d.GetOutcome() == stintv1.Outcome_OUTCOME_CHALLENGE {
		problem{
			Type:             challenge,
			Title:            "Challenge required",
			Status:           http.StatusForbidden,
			Detail:           d.GetReason(),
			Code:             "challenge",
			ViolatedPolicies: d.GetDeniedBy(),
		}.write(w)
		return
	}
	problem{Type: quotaExceeded, Title: "Too many requests", Status: http.StatusTooManyRequests, Detail: d.GetReason(),
		ViolatedPolicies: d.GetDeniedBy()}.write(w)
}

// Failed answers a request without a decision. The cluster's error text is for OnError's log, not for clients. It does
// nothing if w is nil.
func Failed(w http.ResponseWriter, _ *http.Request, err error) {
	if w == nil {
		return
	}
	var failure *client.Error
	switch {
	case errors.Is(err, ErrNoKey):
		problem{Type: noType, Title: "Bad request", Status: http.StatusBadRequest, Detail: err.Error()}.write(w)
	case errors.As(err, &failure) && failure.UnknownKey():
		problem{Type: noType, Title: "Forbidden", Status: http.StatusForbidden,
			Detail: "The sender is not known."}.write(w)
	case failure != nil && (failure.NoDecision() || failure.NoRoom()):
		w.Header().Set("Retry-After", "1")
		w.Header().Add("Access-Control-Expose-Headers", "Retry-After")
		problem{Type: reducedCapacity, Title: "Service unavailable", Status: http.StatusServiceUnavailable,
			Detail: "The request was not carried out, since its limits could not be checked. Try again."}.write(w)
	default:
		problem{Type: noType, Title: "Internal server error", Status: http.StatusInternalServerError}.write(w)
	}
}
