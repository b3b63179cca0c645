package jwks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Rules say which tokens are accepted.
type Rules struct {
	Issuer, Audience string
	Algorithms       []string // of signatures
}

// ErrToken is in the chain of the error about a token that proves nothing.
var ErrToken = errors.New("the token is not valid")

// ErrNoKeys is the error of a verification that needs keys which have never arrived.
var ErrNoKeys = errors.New("the keys of tokens could not be fetched yet")

const (
	tokenBytesMax = 16 << 10
	leeway        = 30 * time.Second // between the signer's clock and ours
)

// Verify returns the subject of a token. It waits for keys that are being fetched until ctx ends: without any the error is
// ErrNoKeys; a token whose key is not among those that are known is not valid.
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
	keys, err := s.await(ctx, parsed.Headers[0].KeyID)
	if err != nil {
		return "", err
	}
	var claims jwt.Claims
	for i := range keys {
		if named := keys[i].Algorithm; named != "" && named != parsed.Headers[0].Algorithm {
			continue
		}
		if parsed.Claims(keys[i].Key, &claims) == nil {
			return subjectOf(&claims, rules)
		}
	}
	return "", fmt.Errorf("%w: its signature is wrong, or its key is not known", ErrToken)
}

// await returns the keys of a name.
func (s *Source) await(ctx context.Context, name string) ([]jose.JSONWebKey, error) {
	for {
		keys, known, soon := s.find(name)
		if soon == nil {
			return keys, nil
		}
		select {
		case <-soon:
			continue
		case <-ctx.Done():
		//mutant:unknown-key-opens-at-close
		case <-s.done: // nothing more is fetched
		}
		if known { // whoever invents the name of a key must not find a gate that fails open
			return nil, nil
		}
		return nil, ErrNoKeys
	}
}

func subjectOf(claims *jwt.Claims, rules Rules) (string, error) {
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: rules.Issuer, AnyAudience: jwt.Audience{rules.Audience}, Time: time.Now()}, leeway)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: it has expired, or is not from the issuer or for the audience that are expected", ErrToken)
	case claims.Expiry == nil: //mutant:token-never-ends
		return "", fmt.Errorf("%w: it never expires", ErrToken)
	case claims.Subject == "":
		return "", fmt.Errorf("%w: it has no subject", ErrToken)
	}
	return claims.Subject, nil
}
