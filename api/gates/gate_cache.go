package gates

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/stint-io/stint/internal/edge/jwks"
	"github.com/stint-io/stint/internal/gate"
	"github.com/stint-io/stint/policy"
)

// gateCache keeps the gates of the policies in force ready, and the keys that verify their tokens up to date. It may be
// used concurrently.
type gateCache struct {
	logger    *slog.Logger
	newest    atomic.Pointer[gateSet] // nil before the first use
	transport http.RoundTripper       // nil means the default

	mu      sync.Mutex              // guards the fields below, and replacing newest
	sources map[string]*jwks.Source // by address; gateCache owns and closes them; nil before the first
	closed  bool                    // sources that are opened from now on fetch nothing
}

// gateSet is the gates of one set of policies. It never changes.
type gateSet struct {
	of    *policy.Set
	gates map[string]*readyGate // by name
}

// readyGate is a gate with the keys that verify its tokens.
type readyGate struct {
	gate   *gate.Gate
	keys   *jwks.Source // nil if none of its identities is a token
	tokens jwks.Rules   // which tokens keys verifies
}

// subject verifies a token, as gate.Subject does. The gate must have an identity that is a token.
func (at *readyGate) subject(ctx context.Context, token string) (string, error) {
	subject, err := at.keys.Verify(ctx, token, at.tokens)
	if errors.Is(err, jwks.ErrToken) {
		return "", gate.ErrToken
	}
	return subject, err
}

// current returns the gates of policies, or of newer ones if another call has got those already. It closes the sources
// that they do not name any more.
func (g *gateCache) current(policies *policy.Set) *gateSet {
	if ready := g.newest.Load(); ready != nil && ready.of == policies {
		return ready
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.newest.Load()
	if before != nil && (before.of == policies || before.of.Version() > policies.Version()) {
		return before
	}
	ready := &gateSet{of: policies, gates: make(map[string]*readyGate)}
	used := map[string]bool{}
	for _, rules := range policies.Rules().Gates {
		at := &readyGate{gate: gate.New(rules, policies)}
		if rules.JWT != nil {
			at.keys, at.tokens = g.source(rules.JWT.JWKS), jwks.Rules{Issuer: rules.JWT.Issuer,
				Audience: rules.JWT.Audience, Algorithms: rules.JWT.Algorithms}
			used[rules.JWT.JWKS] = true
		}
		ready.gates[rules.Name] = at
	}
	g.newest.Store(ready)
	for address, source := range g.sources {
		if !used[address] {
			source.Close()
			delete(g.sources, address)
		}
	}
	return ready
}

// source returns the keys at an address. The caller holds mu.
func (g *gateCache) source(address string) *jwks.Source {
	source := g.sources[address]
	if source == nil {
		source = jwks.Open(address, g.transport, g.logger)
		if g.closed {
			source.Close()
		}
		if g.sources == nil {
			g.sources = make(map[string]*jwks.Source)
		}
		g.sources[address] = source
	}
	return source
}

// close stops the background work and waits for it.
func (g *gateCache) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, source := range g.sources {
		source.Close()
	}
}
