package client

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Error is why there is no decision. It is never a denial.
type Error struct {
	Code    string // name of the RPC code, as in "unavailable"
	Message string // what failed, on what, and what to do
	// MaybeApplied is true if the request was counted once or not at all; a retry with the same idempotency id tells
	// which. If it is false, the request was certainly not counted.
	MaybeApplied bool

	unreached bool // no connection could be made, or the one with the request was lost
}

// Error implements error.
func (e *Error) Error() string { return "stint: " + e.Code + ": " + e.Message }

// NoRoom reports whether the cluster refuses another key, because its policy is at max_keys or a shard is full. A
// client that can make keys can cause it, so a fail mode must not let the request pass. Known keys are still decided.
func (e *Error) NoRoom() bool { return strings.Contains(e.Message, "until old ones end") }

// NoDecision reports whether the cluster could not decide, for whatever reason: the case for a fail mode. It is false
// for a request that will never be right, which no fail mode may hide, and for a key without room (NoRoom).
func (e *Error) NoDecision() bool {
	switch e.Code {
	case "unavailable", "deadline_exceeded", "aborted", "canceled", "resource_exhausted", "internal", "unknown":
		return !e.NoRoom()
	}
	return false
}

// UnknownKey reports whether the policy refuses keys without an override (unknown_key: deny), and this key has none. A
// policy that does not exist is another not_found.
func (e *Error) UnknownKey() bool { return e.Code == "not_found" && keyField.MatchString(e.Message) }

// keyField begins the message of an error about the key of an entry.
var keyField = regexp.MustCompile(`^(check\.)?entries\[\d+\]\.key: `)

// mayAskAgain reports whether a retry is safe and can help. countsOnce means that sending the request twice counts it
// once.
func (e *Error) mayAskAgain(countsOnce bool) bool {
	if e.MaybeApplied {
		return countsOnce
	}
	return e.Code == connect.CodeUnavailable.String() && !e.NoRoom()
}

// unwritable returns the error of a request that no message can carry, as one with a key that is no UTF-8, if that is
// why its call has failed, else nil. Nothing was sent, and nothing ever can be.
func unwritable(r proto.Message, err error) *Error {
	if !errors.Is(err, proto.Error) {
		return nil
	}
	if _, err = proto.Marshal(r); err == nil { // it was the answer that could not be read
		return nil
	}
	return &Error{Code: connect.CodeInvalidArgument.String(), Message: "the request cannot be written: " + err.Error()}
}

// failed translates the error of a call. An error without the server's Failure detail counts as maybe applied, unless
// no connection could be made to send the request.
func failed(err error) *Error {
	e := &Error{Code: connect.CodeOf(err).String(), Message: err.Error(), MaybeApplied: true}
	var coded *connect.Error
	if errors.As(err, &coded) {
		e.Message = coded.Message()
		for _, d := range coded.Details() {
			value, err := d.Value()
			if f, ok := value.(*stintv1.Failure); ok && err == nil {
				e.MaybeApplied = f.MaybeApplied
				return e
			}
		}
	}
	if neverSent(err) {
		e.unreached, e.Code, e.MaybeApplied = true, connect.CodeUnavailable.String(), false
	}
	if connectionLost(err) { //mutant:lost-node-is-asked-again
		e.unreached = true
	}
	if e.MaybeApplied {
		e.Code = connect.CodeAborted.String() // the server's code for this fate
	}
	return e
}

// neverSent reports whether an error means that no request reached a node: no connection could be made, its TLS
// handshake failed, or one end speaks TLS and the other does not.
func neverSent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "dial" || op.Op == "remote error" &&
		slices.Contains(tlsAlerts, op.Err.Error())) {
		return true
	}
	var unverified *tls.CertificateVerificationError // with a transport of the caller
	if errors.As(err, &unverified) || errors.Is(err, http.ErrSchemeMismatch) {
		return true
	}
	// A TLS port answers HTTP/1.1 to plaintext. The HTTP/2 library reports that only in these texts; the second one if
	// the connection ended before its first request was sent.
	return strings.Contains(err.Error(), "looked like an HTTP/1.1 header") ||
		strings.Contains(err.Error(), "http2: client conn could not be established")
}

// connectionLost reports whether an error means that a node has not answered, and not for want of time.
func connectionLost(err error) bool {
	return !connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeUnavailable
}

// tlsAlerts are the alerts by which a server refuses a client's certificate. In TLS 1.3 they come when the
// client has already sent its request, which the server then does not read.
var tlsAlerts = []string{"tls: bad certificate", "tls: unknown certificate authority", "tls: expired certificate",
	"tls: unsupported certificate", "tls: certificate required"}
