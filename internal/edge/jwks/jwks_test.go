package jwks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

var rules = Rules{Issuer: "https://id.example", Audience: "shop", Algorithms: []string{"ES256"}}

// issuer signs tokens and publishes keys. It is the http.RoundTripper of a Source.
type issuer struct {
	mu      sync.Mutex
	keys    map[string]any // private, by name
	extra   []json.RawMessage
	fails   bool
	hangs   bool
	fetches int
}

func newIssuer(t *testing.T, names ...string) *issuer {
	i := &issuer{keys: map[string]any{}}
	for _, name := range names {
		i.add(t, name)
	}
	return i
}

func (i *issuer) add(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.set(func() { i.keys[name] = key })
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) fetched() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// RoundTrip implements http.RoundTripper.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fetches++
	if i.hangs || i.fetches > 1000 { // a source that never stops fetching would let no time pass
		i.mu.Unlock()
		<-r.Context().Done()
		i.mu.Lock()
		return nil, r.Context().Err()
	}
	if i.fails {
		return &http.Response{StatusCode: 500, Status: "500", Body: http.NoBody}, nil
	}
	document := struct {
		Keys []any `json:"keys"`
	}{}
	for name, key := range i.keys {
		document.Keys = append(document.Keys, jose.JSONWebKey{Key: key.(*ecdsa.PrivateKey).Public(), KeyID: name,
			Use: "sig"})
	}
	for _, raw := range i.extra {
		document.Keys = append(document.Keys, raw)
	}
	text, err := json.Marshal(document)
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(text)))}, err
}

// sign makes a token of claims, which override the usual ones; nil leaves one out.
func (i *issuer) sign(t *testing.T, name string, claims map[string]any) string {
	t.Helper()
	i.mu.Lock()
	key := i.keys[name]
	i.mu.Unlock()
	return signed(t, jose.ES256, key, name, claims)
}

func signed(t *testing.T, algorithm jose.SignatureAlgorithm, key any, name string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", name))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"iss": rules.Issuer, "aud": []string{"other", rules.Audience}, "sub": "ann",
		"exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	token, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// within runs a test in a bubble, with a source of an issuer's keys.
func within(t *testing.T, i *issuer, test func(t *testing.T, s *Source)) {
	synctest.Test(t, func(t *testing.T) {
		s := Open("https://id.example/keys", i, slog.New(slog.DiscardHandler))
		defer s.Close()
		test(t, s)
	})
}

// verify verifies a token as a gate does: it waits for 250 ms.
func verify(t *testing.T, s *Source, token string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	return s.Verify(ctx, token, rules)
}

func TestOnlyATokenOfTheIssuerForTheAudienceProves(t *testing.T) {
	i := newIssuer(t, "a")
	foreign := newIssuer(t, "a")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	within(t, i, func(t *testing.T, s *Source) {
		now := time.Now()
		good := i.sign(t, "a", nil)
		public, err := json.Marshal(i.keys["a"].(*ecdsa.PrivateKey).Public())
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			token string
			good  bool
		}{
			"good":                    {good, true},
			"for one audience":        {i.sign(t, "a", map[string]any{"aud": "shop"}), true},
			"a little old":            {i.sign(t, "a", map[string]any{"exp": now.Add(-20 * time.Second).Unix()}), true},
			"expired":                 {i.sign(t, "a", map[string]any{"exp": now.Add(-time.Minute).Unix()}), false},
			"without an end":          {i.sign(t, "a", map[string]any{"exp": nil}), false},
			"not yet good":            {i.sign(t, "a", map[string]any{"nbf": now.Add(time.Minute).Unix()}), false},
			"of another issuer":       {i.sign(t, "a", map[string]any{"iss": "https://id.example/"}), false},
			"of no issuer":            {i.sign(t, "a", map[string]any{"iss": nil}), false},
			"for another audience":    {i.sign(t, "a", map[string]any{"aud": "shop2"}), false},
			"for no audience":         {i.sign(t, "a", map[string]any{"aud": nil}), false},
			"of nobody":               {i.sign(t, "a", map[string]any{"sub": ""}), false},
			"signed by somebody else": {foreign.sign(t, "a", nil), false},
			"of an unknown key":       {signed(t, jose.ES256, i.keys["a"], "b", nil), false},
			"without a name of a key": {signed(t, jose.ES256, i.keys["a"], "", nil), true},
			"changed":                 {good[:len(good)-6] + "AAAAAA", false},
			"with another algorithm":  {signed(t, jose.RS256, rsaKey, "a", nil), false},
			"with a shared secret":    {signed(t, jose.HS256, public, "a", nil), false},
			"without a signature":     {"eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + ".", false},
			"nonsense":                {"nonsense", false},
			"nothing":                 {"", false},
			"too long":                {strings.Repeat("x", tokenBytesMax+1), false},
		} {
			subject, err := verify(t, s, c.token)
			if c.good && (err != nil || subject != "ann") || !c.good && (!errors.Is(err, ErrToken) || subject != "") {
				t.Errorf("%s: %q, %v", name, subject, err)
			}
		}
	})
}

func TestANewKeyIsFetchedOnceAMinute(t *testing.T) {
	i := newIssuer(t, "old")
	within(t, i, func(t *testing.T, s *Source) {
		if _, err := verify(t, s, i.sign(t, "old", nil)); err != nil {
			t.Fatal(err)
		}
		i.add(t, "new")
		if _, err := verify(t, s, i.sign(t, "new", nil)); !errors.Is(err, ErrToken) || i.fetched() != 1 {
			t.Errorf("within the minute: %v, %d fetches", err, i.fetched())
		}
		time.Sleep(unknownEvery)
		if _, err := verify(t, s, i.sign(t, "new", nil)); err != nil || i.fetched() != 2 {
			t.Errorf("after the minute: %v, %d fetches", err, i.fetched())
		}
		stranger := newIssuer(t, "invented")
		for range 600 { // a flood of invented names, for ten minutes
			if _, err := verify(t, s, stranger.sign(t, "invented", nil)); !errors.Is(err, ErrToken) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := i.fetched(); n < 10 || n > 13 {
			t.Errorf("ten minutes of invented names made %d fetches", n)
		}
		i.set(func() { delete(i.keys, "old") })
		old := newIssuer(t, "old").sign(t, "old", nil)
		time.Sleep(refreshAfter)
		if _, err := verify(t, s, old); !errors.Is(err, ErrToken) {
			t.Errorf("a key that was withdrawn: %v", err)
		}
	})
}

// A key that is replaced under its name, or that has none, proves nothing from the next fetch on, and its successor
// asks for that fetch.
func TestAKeyThatIsReplacedUnderItsNameIsGone(t *testing.T) {
	for _, name := range []string{"a", ""} {
		i := newIssuer(t, name)
		within(t, i, func(t *testing.T, s *Source) {
			old := i.sign(t, name, map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()})
			if _, err := verify(t, s, old); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * unknownEvery)
			i.add(t, name)
			if _, err := verify(t, s, i.sign(t, name, nil)); err != nil || i.fetched() != 2 {
				t.Errorf("%q: the new key: %v, %d fetches", name, err, i.fetched())
			}
			if _, err := verify(t, s, old); !errors.Is(err, ErrToken) {
				t.Errorf("%q: the old key: %v", name, err)
			}
			forged := newIssuer(t, name)
			for range 600 { // ten minutes of wrong signatures
				if _, err := verify(t, s, forged.sign(t, name, nil)); !errors.Is(err, ErrToken) {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			if n := i.fetched(); n < 10 || n > 14 {
				t.Errorf("%q: ten minutes of wrong signatures made %d fetches", name, n)
			}
			i.set(func() { delete(i.keys, name) }) // all are withdrawn
			time.Sleep(refreshAfter)
			if _, err := verify(t, s, old); !errors.Is(err, ErrToken) {
				t.Errorf("%q: no key is left: %v", name, err)
			}
		})
	}
}

// A token that names no key may be signed by any of them.
func TestATokenWithoutANameIsTriedWithEveryKey(t *testing.T) {
	i := newIssuer(t, "a", "b", "c")
	within(t, i, func(t *testing.T, s *Source) {
		for name, key := range i.keys {
			if _, err := verify(t, s, signed(t, jose.ES256, key, "", nil)); err != nil {
				t.Errorf("signed by %s: %v", name, err)
			}
		}
		if _, err := verify(t, s, newIssuer(t, "d").sign(t, "d", nil)); !errors.Is(err, ErrToken) {
			t.Errorf("signed by nobody: %v", err)
		}
	})
}

func TestTheOldKeysStayWhileTheIssuerIsGone(t *testing.T) {
	i := newIssuer(t, "a")
	within(t, i, func(t *testing.T, s *Source) {
		if _, err := verify(t, s, i.sign(t, "a", nil)); err != nil {
			t.Fatal(err)
		}
		for _, fault := range []func(){func() { i.fails = true }, func() { i.hangs = true }} {
			i.set(fault)
			before := i.fetched()
			time.Sleep(3 * refreshAfter)
			if n := i.fetched() - before; n < 100 || n > 400 {
				t.Errorf("%d fetches in three hours", n)
			}
			if _, err := verify(t, s, i.sign(t, "a", nil)); err != nil {
				t.Errorf("a key that is known: %v", err)
			}
			// A client that invents a key while the issuer hangs is refused; nothing fails open for it.
			if _, err := verify(t, s, newIssuer(t, "b").sign(t, "b", nil)); !errors.Is(err, ErrToken) {
				t.Errorf("a key that is not: %v", err)
			}
		}
	})
}

func TestWithoutAnyKeysNobodyCanTell(t *testing.T) {
	i := newIssuer(t, "a")
	i.fails = true
	within(t, i, func(t *testing.T, s *Source) {
		if _, err := verify(t, s, i.sign(t, "a", nil)); !errors.Is(err, ErrNoKeys) {
			t.Errorf("before the first keys: %v", err)
		}
		i.set(func() { i.fails = false })
		time.Sleep(2 * retryMost)
		if _, err := verify(t, s, i.sign(t, "a", nil)); err != nil {
			t.Errorf("when they have come: %v", err)
		}
		s.Close()
		if _, err := verify(t, s, i.sign(t, "a", nil)); err != nil {
			t.Errorf("closed, with keys: %v", err)
		}
		time.Sleep(2 * unknownEvery) // now an unknown key would be fetched
		if _, err := verify(t, s, newIssuer(t, "b").sign(t, "b", nil)); !errors.Is(err, ErrToken) {
			t.Errorf("closed, and a key that is not known: %v", err)
		}
	})
}

// Keys that cannot verify a signature are left out, and do not spoil the rest.
func TestOnlyPublicKeysForSignaturesCount(t *testing.T) {
	i := newIssuer(t, "a")
	private, err := json.Marshal(jose.JSONWebKey{Key: i.keys["a"], KeyID: "private"})
	if err != nil {
		t.Fatal(err)
	}
	i.extra = []json.RawMessage{[]byte(`{"kty":"oct","kid":"secret","k":"c2VjcmV0"}`),
		[]byte(`{"kty":"XYZ","kid":"new"}`), private, []byte(`{"kty":"EC"}`)}
	within(t, i, func(t *testing.T, s *Source) {
		if _, err := verify(t, s, i.sign(t, "a", nil)); err != nil {
			t.Error(err)
		}
		if keys, _ := s.find("private"); keys != nil || len(s.keys) != 1 {
			t.Errorf("%d keys, and one of them is private", len(s.keys))
		}
	})
}
