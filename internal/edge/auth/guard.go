package auth

import (
	"context"
	"sync/atomic"
	"time"
)

// staleAfter is how long the last known tokens are good enough for operations that change what callers may do.
const staleAfter = 10 * time.Second

// Guard authenticates callers by the newest set that the node knows.
type Guard struct {
	now  func() time.Time
	set  atomic.Pointer[Set]           // never nil
	next atomic.Pointer[chan struct{}] // closed, and replaced, when another set is in force
	// heard is when the set was last known to be the cluster's newest, in Unix microseconds. It is 0 before the first
	// time, which counts as long ago.
	heard atomic.Int64
}

// NewGuard makes a guard without tokens: it admits no caller until Learn is called.
func NewGuard(now func() time.Time) *Guard {
	g := &Guard{now: now}
	g.set.Store(&Set{})
	next := make(chan struct{})
	g.next.Store(&next)
	return g
}

// Learn puts a set in force.
func (g *Guard) Learn(s *Set) {
	g.set.Store(s)
	next := make(chan struct{})
	close(*g.next.Swap(&next))
}

// Await waits until the guard has the tokens, or ctx ends.
func (g *Guard) Await(ctx context.Context) {
	for next := *g.next.Load(); !g.set.Load().Known; next = *g.next.Load() {
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// Heard records that the set was the cluster's newest at an instant. An earlier instant than the last changes nothing.
func (g *Guard) Heard(at time.Time) {
	for micros := at.UnixMicro(); ; {
		before := g.heard.Load()
		if micros <= before || g.heard.CompareAndSwap(before, micros) {
			return
		}
	}
}

// Unheard returns for how long the set has not been known to be the cluster's newest.
func (g *Guard) Unheard() time.Duration { return g.now().Sub(time.UnixMicro(g.heard.Load())) }

// Set returns the set in force.
func (g *Guard) Set() *Set { return g.set.Load() }

// Port says from where the port of a request can be reached.
type Port uint8

const (
	Public   Port = iota // others can reach it
	Trusted              // others can reach it, and the operator trusts all of them
	Loopback             // only this machine can reach it
	Local                // the socket in the data directory: its callers own the node's files
)

// Proof is a request's credentials.
type Proof struct {
	Port  Port
	Token string // may be empty
	Role  string // proven by a client certificate; may be empty
}

// Caller authenticates a request, or returns the reason for a refusal. A token decides even beside a proven role: a
// wrong one is never ignored.
func (g *Guard) Caller(p Proof) (*Caller, *Refusal) {
	set := g.set.Load()
	switch {
	case p.Port == Local:
		return local, nil
	case set.Outside:
		return outsider, nil
	case !set.Known:
		return nil, Young
	case !set.Required && p.Port == Public: //mutant:public-before-the-first-token
		return nil, errNoTokensYet
	case !set.Required && p.Port == Trusted: //mutant:trusted-port-ignores-tokens
		return guest, nil //mutant:guest-names-a-tier
	case !set.Required:
		return anybody, nil
	case p.Token == "" && p.Role == "":
		return nil, errNoToken
	}
	now := g.now().UnixMicro()
	var c *Caller
	if p.Token != "" {
		c = set.ofToken(p.Token, now)
	} else {
		c = set.ofRole(p.Role, now)
	}
	if c == nil { //mutant:wrong-token-falls-back-to-role
		return nil, errWrong
	}
	c.use(now)
	return c, nil
}

// Still returns the caller of a long-lived connection with its present grants, or the reason why it is refused by now.
// The caller must be one that this guard has returned, for the same port.
func (g *Guard) Still(c *Caller, port Port) (*Caller, *Refusal) {
	set := g.set.Load()
	switch {
	case port == Local:
		return c, nil
	case c == outsider:
		return g.Caller(Proof{Port: port})
	case c.record == nil && set.Required:
		return nil, errNoToken
	case c.record == nil && !set.Known:
		return nil, Young
	case c.record == nil:
		return c, nil
	case !set.Required: // tokens were turned off
		return g.Caller(Proof{Port: port})
	}
	now := g.now().UnixMicro()
	present := set.still(c, now) //mutant:connection-keeps-a-revoked-token
	if present == nil {
		return nil, errWrong
	}
	present.use(now)
	return present, nil
}

// Admit returns nil if a caller may do an operation on some target. For an operation on keys, check each key too
// (Caller.May).
func (g *Guard) Admit(c *Caller, op Op) *Refusal {
	switch {
	case c == outsider && op != NoOp:
		return Young
	case !c.MaySomewhere(op):
		return NotGrantedError(op)
	case !op.ofKeys() && !c.May(op, Target{}):
		return NotGrantedError(op)
	//mutant:old-tokens-do-everything 2
	case c.record != nil && op != NoOp && !op.survivesSilence() &&
		g.now().UnixMicro()-g.heard.Load() > staleAfter.Microseconds():
		return errStale
	}
	return nil
}
