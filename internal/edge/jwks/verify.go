package jwks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Rules define which tokens are accepted.
type Rules struct {
	Issuer, Audience string   // never "": an empty issuer would not be compared
	Algorithms       []string // of signatures, by their names in RFC 7518; none with a shared secret
}

// ErrToken is in the chain of the error about an invalid token.
var ErrToken = errors.New("the token is not valid")

// ErrNoKeys is the error of a verification before any keys have arrived.
var ErrNoKeys = errors.New("the keys of tokens could not be fetched yet")

const (
	tokenBytesMax = 16 << 10
	leeway        = 30 * time.Second // between the signer's clock and ours
)

// Verify returns the subject of a token. If no known key has signed it, the keys may have changed: Verify fetches them,
// as often as the package allows, and waits until ctx ends. If there have never been any, the error is ErrNoKeys.
func (s *Source) Verify(ctx context.Context, token string, rules Rules) (subject string, err error) {
	if len(token) > tokenBytesMax {
		return "", fmt.Errorf("%w: it is too long", ErrToken)
	}
	algorithms := make([]jose.SignatureAlgorithm, len(rules.Algorithms))
	for i, name := range rules.Algorithms { //mutant:token-chooses-its-algorithm
		algorithms[i] = jose.SignatureAlgorithm(name)
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return "", fmt.Errorf("%w: it cannot be read, or has another algorithm than %v", ErrToken, rules.Algorithms)
	}
	for {
		keys, known := s.find(parsed.Headers[0].KeyID)
		if claims, signed := signedBy(parsed, keys); signed {
			return subjectOf(claims, rules)
		}
		if s.await(ctx) {
			continue
		}
		if !known { //mutant:unknown-key-opens-at-close
			return "", ErrNoKeys
		}
		// An invented key, or key name, must not open a gate that fails open.
		return "", fmt.Errorf("%w: its signature is wrong, or its key is not known", ErrToken)
	}
}

// signedBy returns the claims of a token if one of the keys has signed it.
func signedBy(token *jwt.JSONWebToken, keys []jose.JSONWebKey) (claims *jwt.Claims, signed bool) {
	for i := range keys {
		if named := keys[i].Algorithm; named != "" && named != token.Headers[0].Algorithm {
			continue
		}
		claims = new(jwt.Claims)
		if token.Claims(keys[i].Key, claims) == nil {
			return claims, true
		}
	}
	return nil, false
}

// await waits for a newer set of keys, and reports whether there may be one.
func (s *Source) await(ctx context.Context) bool {
	soon := s.another()
	if soon == nil {
		return false
	}
	select {
	case <-soon:
		return true
	case <-ctx.Done():
	case <-s.done: // nothing more is fetched
	}
	return false
}

// subjectOf checks the claims of a signed token and returns its subject. A token that never expires is refused.
func subjectOf(claims *jwt.Claims, rules Rules) (string, error) {
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: rules.Issuer, AnyAudience: jwt.Audience{rules.Audience},
		Time: time.Now()}, leeway)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: it has expired, or is not from the issuer or for the audience that are expected",
			ErrToken)
	case claims.Expiry == nil: //mutant:token-never-ends
		return "", fmt.Errorf("%w: it never expires", ErrToken)
	case claims.Subject == "":
		return "", fmt.Errorf("%w: it has no subject", ErrToken)
	}
	return claims.Subject, nil
}
