package jwks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	fetchWithin   = 10 * time.Second
	refreshAfter  = time.Hour
	retryFirst    = time.Second
	retryMost     = time.Minute
	unknownEvery  = time.Minute // one fetch for tokens with an unknown signing key
	documentBytes = 1 << 20     // read of a document; a longer one is cut off, and so cannot be read
	keysMost      = 64          // kept of a document, the first ones
)

// Source has the keys of one address.
type Source struct {
	url    string
	client *http.Client
	logger *slog.Logger
	stop   context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
	wanted chan struct{} // a token with an unknown signing key has come; of capacity 1

	mu      sync.Mutex        // guards the fields below: run writes them
	keys    []jose.JSONWebKey // nil if never fetched
	tried   time.Time         // when the newest fetch began; zero before the first
	busy    bool              // it is under way, or was when Close ended it
	fetched chan struct{}     // closed at the end of that, or of the next one
}

// Open begins to fetch keys. A nil transport means the default. The caller must call Close.
func Open(url string, transport http.RoundTripper, logger *slog.Logger) *Source {
	ctx, stop := context.WithCancel(context.Background())
	s := &Source{url: url, logger: logger, stop: stop, done: make(chan struct{}), wanted: make(chan struct{}, 1),
		fetched: make(chan struct{}), client: &http.Client{Transport: transport, Timeout: fetchWithin,
			// A redirect could lead from https to somewhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	go s.run(ctx)
	return s
}

// Close stops fetching and waits for it. The keys stay.
func (s *Source) Close() {
	s.stop()
	<-s.done
}

// run is the goroutine of a Source.
func (s *Source) run(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for retry := retryFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wanted:
		}
		s.begin()
		keys, err := s.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		s.end(keys)
		if err == nil && len(keys) == 0 {
			s.logger.Warn("there is no public key for signatures at this address: no token is good", "url", s.url)
		}
		if err != nil {
			s.logger.Warn("the keys of tokens cannot be fetched; those known before stay",
				"url", s.url, "error", err, "retry_in", retry)
			timer.Reset(retry)
			retry = min(2*retry, retryMost)
			continue
		}
		timer.Reset(refreshAfter)
		retry = retryFirst
	}
}

func (s *Source) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried, s.busy = time.Now(), true
}

// end records the result of a fetch; nil means that it failed, and the old keys stay.
func (s *Source) end(keys []jose.JSONWebKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	//mutant:keys-lost-with-their-issuer 3
	if keys != nil {
		s.keys = keys
	}
	s.busy = false
	close(s.fetched)
	s.fetched = make(chan struct{})
	select { // the callers that wanted this fetch have had it
	case <-s.wanted:
	default:
	}
}

// fetch reads the keys at the address once. Without an error the result is not nil, also if there are none.
func (s *Source) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, documentBytes))
	if err != nil {
		return nil, err
	}
	return readKeys(text)
}

// readKeys reads a document of keys and leaves out those that cannot verify a signature. Unknown kinds of keys are not
// an error: the others must stay good (RFC 7517, 5).
func readKeys(text []byte) (keys []jose.JSONWebKey, err error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("no document of keys: %w", err)
	}
	if document.Keys == nil {
		return nil, errors.New("no document of keys: it has no keys")
	}
	keys = []jose.JSONWebKey{} // an empty set withdraws all keys
	for _, raw := range document.Keys {
		var key jose.JSONWebKey
		if len(keys) < keysMost && key.UnmarshalJSON(raw) == nil && key.Valid() && key.IsPublic() && key.Use != "enc" {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// find returns the keys with a name, or all if a token names none. known reports whether any set of keys has been
// fetched.
func (s *Source) find(name string) (found []jose.JSONWebKey, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.keys {
		if key.KeyID == name || name == "" {
			found = append(found, key)
		}
	}
	return found, s.keys != nil
}

// another requests a newer set of keys. It returns a channel that is closed when one may be there, or nil if there will
// be none within this minute.
func (s *Source) another() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || s.busy {
		return s.fetched
	}
	if time.Since(s.tried) < unknownEvery { //mutant:each-key-name-fetched
		return nil
	}
	select {
	case s.wanted <- struct{}{}:
	default:
	}
	return s.fetched
}
