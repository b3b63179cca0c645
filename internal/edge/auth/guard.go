package auth

import (
	"context"
	"sync/atomic"
	"time"
)

// Refusal is why a request is not served. Nothing of the request was done.
type Refusal struct {
	Kind    Kind
	Message string
}

// Kind says what the caller can do about a Refusal.
type Kind uint8

const (
	Unproven    Kind = iota // prove who you are
	NotGranted              // ask for more rights
	Unavailable             // ask again, or another node
)

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

var (
	errNoToken = &Refusal{Unproven, "this server asks for a token: send one (--token-file FILE or STINT_TOKEN; over HTTP " +
		"Authorization: Bearer TOKEN); nothing was done"}
	errNoTokensYet = &Refusal{Unproven, "this server can be reached by others and has no tokens yet: make the first one on its machine, with " +
		"stint token create NAME --admin --data-dir DIR; nothing was done"}
	errWrong = &Refusal{Unproven, "the token or role is not known here, has expired or was revoked; nothing was done"}
	errYoung = &Refusal{Unavailable, "this node does not know yet which tokens are valid; nothing was done; ask again"}
	errStale = &Refusal{Unavailable, "this node has not heard for 10 s which tokens are valid, so only check, settle and read are served; " +
		"nothing was done; ask another node"}
)

// Young is the refusal by a guard that does not know yet who may do what. It says nothing about the caller.
var Young = errYoung

// WrongName is the refusal of a right token under the name of another one.
var WrongName = errWrong

// NotGrantedError is the refusal of an operation that no grant of the caller covers. It repeats only what the request said, so
// that it does not tell what exists.
func NotGrantedError(op Op) *Refusal {
	return &Refusal{NotGranted, "this token or role does not allow " + op.String() + " here; nothing was done"}
}

// staleAfter is how long the last known tokens are good enough for operations that change what callers may do.
const staleAfter = 10 * time.Second

// Guard says who sent a request, by the newest set that the node knows.
type Guard struct {
	now   func() time.Time
	set   atomic.Pointer[Set]
	next  atomic.Pointer[chan struct{}] // closed when another set is in force
	heard atomic.Int64                  // Unix microseconds: the set was the cluster's newest then
}

// Anybody is the caller at a place where nobody is asked.
func Anybody() *Caller { return anybody }

// NewGuard makes a guard that knows nothing yet: it lets nobody in until Learn is called.
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

// Await waits until the guard knows who may do what, or ctx ends.
func (g *Guard) Await(ctx context.Context) {
	for next := *g.next.Load(); !g.set.Load().Known; next = *g.next.Load() {
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// Heard records that the set was the cluster's newest at an instant.
func (g *Guard) Heard(at time.Time) {
	for micros := at.UnixMicro(); ; {
		before := g.heard.Load()
		if micros <= before || g.heard.CompareAndSwap(before, micros) {
			return
		}
	}
}

// Set is the set in force.
func (g *Guard) Set() *Set { return g.set.Load() }

// Port is what the guard knows of the port that a request came to.
type Port uint8

const (
	Public   Port = iota // others can reach it
	Trusted              // others can reach it, and the operator trusts them all
	Loopback             // only this machine can reach it
	Local                // the socket in the data directory: whoever reaches it owns the node's files
)

// Proof is what a request brought along to say who sent it.
type Proof struct {
	Port  Port
	Token string // "": none
	Role  string // that a client certificate proves; "": none
}

// The callers without a record. A guest may not lift a limit by naming an unlimited tier: that takes proof.
var (
	local   = &Caller{name: "local", grants: []grant{{all: true, ops: 1<<opCount - 1}}}
	anybody = &Caller{grants: []grant{{all: true, ops: 1<<opCount - 1}}}
	// outsider may ask a node without a cluster how it is.
	outsider = &Caller{}
	guest    = &Caller{grants: []grant{{ops: 1<<opCount - 1, tiers: []string{"*"}}}}
)

// Caller returns who sent a request, or why it is refused. A token decides even where a role is proven too: a wrong one is never
// passed over.
func (g *Guard) Caller(p Proof) (*Caller, *Refusal) {
	set := g.set.Load()
	switch {
	case p.Port == Local:
		return local, nil
	case set.Outside:
		return outsider, nil
	case !set.Known:
		return nil, errYoung
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

// Still returns the caller of a connection that has been open for a while, with its present grants, or why it is refused by now.
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
		return nil, errYoung
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

// Admit says whether a caller may do an operation somewhere. The caller of an operation on keys must be asked for each of them
// too (Caller.May).
func (g *Guard) Admit(c *Caller, op Op) *Refusal {
	switch {
	case c == outsider && op != NoOp:
		return errYoung
	case !c.MaySomewhere(op):
		return NotGrantedError(op)
	case !op.ofKeys() && !c.May(op, Target{}):
		return NotGrantedError(op)
	//mutant:old-tokens-do-everything
	case c.record != nil && op != NoOp && !op.survivesSilence() && g.now().UnixMicro()-g.heard.Load() > staleAfter.Microseconds():
		return errStale
	}
	return nil
}
