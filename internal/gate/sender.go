package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/stint-io/stint/policy"
)

// Subject verifies a token and returns its subject. Its error is ErrToken if the token is invalid; any other error
// means that it could not be verified.
type Subject func(token string) (subject string, err error)

// ErrToken is the error about an invalid token.
var ErrToken = errors.New("the token is not valid")

// sharedIdentity is the identity of all clients without one. No other identity begins so.
const sharedIdentity = "anonymous"

// sender identifies the client of a request, each field once and only if an entry needs it. The errors of the fields
// mean that they are missing (errMissing), refused, or could not be verified.
type sender struct {
	q       *Question
	route   *Route
	subject Subject

	identity, ip func() (string, error) // the methods first and address; later calls return the same
}

func newSender(q *Question, r *Route, subject Subject) *sender {
	s := &sender{q: q, route: r, subject: subject}
	s.identity, s.ip = sync.OnceValues(s.first), sync.OnceValues(s.address)
	return s
}

// value returns the value of a field of a key.
func (s *sender) value(field string) (string, error) {
	if field == policy.GateFieldIP {
		return s.ip()
	}
	return s.identity()
}

// errMissing means that the request lacks a field. The gate's on_missing says what becomes of it, so it does not leave
// the package.
var errMissing = errors.New("the request does not say who sent it")

// address returns the client's address. One that cannot be read is missing.
func (s *sender) address() (string, error) {
	address, err := s.route.gate.proxies.Client(s.q.Peer, s.q.Header["X-Forwarded-For"])
	if err != nil {
		return "", errMissing
	}
	return address, nil
}

// first returns the first identity that the request has. An invalid one is refused, and not skipped: otherwise a client
// with an expired token would count by its address.
func (s *sender) first() (string, error) {
	for _, identity := range s.route.gate.rules.Identity {
		var name string
		var err error
		switch identity.Kind {
		case policy.IdentityJWT:
			name, err = s.user()
		case policy.IdentityHeader:
			name, err = s.key(identity.Header)
		default:
			name, err = s.ip()
		}
		if !errors.Is(err, errMissing) {
			return name, err
		}
	}
	return "", errMissing
}

// user returns the subject of the bearer token. Several tokens are refused: the site might read another one than the
// gate.
func (s *sender) user() (string, error) {
	header, many := s.q.one("Authorization")
	many = many || joinedToken.MatchString(header) //mutant:second-token-behind-a-comma
	// A site may accept more than a space after the scheme, and white space before it, which HTTP/2 and HTTP/3 let
	// through. If the gate took that for another scheme, the request would count as one without a token.
	header = strings.TrimLeftFunc(header, isGap) //mutant:token-behind-white-space
	scheme, token := header, ""
	if i := strings.IndexFunc(header, isGap); i >= 0 {
		scheme, token = header[:i], header[i:]
	}
	if !strings.EqualFold(scheme, "Bearer") && !many {
		return "", errMissing
	}
	if many {
		return "", unproven(ErrToken)
	}
	subject, err := s.subject(strings.Trim(token, " \t"))
	if errors.Is(err, ErrToken) {
		return "", unproven(err) //mutant:bad-token-skipped
	}
	return "user:" + subject, err
}

// isGap reports whether a site may take a character for white space. No scheme has one.
func isGap(r rune) bool { return r <= ' ' || r > '~' } //mutant:token-behind-a-tab

// joinedToken matches a token in another line of the header: a proxy may join lines with commas (RFC 9110, 5.3).
var joinedToken = regexp.MustCompile(`(?i),[ \t]*bearer`)

// key returns the identity of an API key. It is one only on a route that refuses unknown keys: elsewhere each key that
// a client invents would have a count of its own.
func (s *sender) key(header string) (string, error) {
	value, many := s.q.one(header)
	switch {
	case !s.route.knowsKeys || value == "" && !many: //mutant:invented-api-key-counts
		return "", errMissing
	case many:
		return "", unproven(errors.New("there is more than one API key"))
	}
	sum := sha256.Sum256([]byte(value))
	return "key:" + hex.EncodeToString(sum[:]), nil
}

// unproven refuses a request with 401.
func unproven(err error) error { return &Refusal{http.StatusUnauthorized, err.Error()} }
