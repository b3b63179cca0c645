package redis

import (
	"context"
	"net"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// Bounds on a connection that has not proven who it is. Redis had to learn them (CVE-2021-32675, CVE-2025-21605).
const (
	provenWithin    = 5 * time.Second
	strangeCommands = 16
	strangeArgs     = 10
	strangeBytes    = 1 << 10  // of an argument
	strangeHeld     = 16 << 10 // bytes of a command that is not complete
)

const tooStrange = "the connection has not proven who it is, and sends too much: AUTH comes first"

const (
	codeNoAuth    = "NOAUTH"
	codeWrongPass = "WRONGPASS"
	codeNoPerm    = "NOPERM"
	codeLoading   = "LOADING" // the node has just started: a client that knows Redis asks again
)

// identity is what a connection knows of its caller. The goroutine that reads the connection owns it.
type identity struct {
	caller    *auth.Caller  // nil: not proven
	refusal   *auth.Refusal // why it is nil
	namespace string        // in which the commands act
	strange   int           // commands that came before the proof
	bounded   bool          // the connection must prove itself in time
}

// awaitTokens waits until the node knows which tokens are valid, at most as long as a command may take. Whoever connects to a node
// that starts is answered then, and not refused.
func (c *conn) awaitTokens() {
	if guard := c.server.config.Guard; guard != nil {
		ctx, cancel := context.WithTimeout(c.server.ctx, c.server.config.RequestTimeout)
		defer cancel()
		guard.Await(ctx)
	}
}

// identify asks who is there before a round: a token may have been revoked meanwhile, or the cluster may ask for one by now.
func (c *conn) identify() {
	guard := c.server.config.Guard
	if guard == nil {
		c.is(auth.Anybody())
		return
	}
	var refusal *auth.Refusal
	caller := c.who.caller
	if caller == nil {
		caller, refusal = guard.Caller(auth.Proof{Port: c.server.config.Port, Role: c.role})
	} else {
		caller, refusal = guard.Still(caller, c.server.config.Port)
	}
	if caller == nil {
		c.stranger(refusal)
		return
	}
	c.is(caller)
}

// is records a proven caller.
func (c *conn) is(caller *auth.Caller) {
	if c.who.caller == caller {
		return
	}
	if c.who.bounded {
		c.nc.SetReadDeadline(time.Time{})
	}
	c.proven()
	c.who = identity{caller: caller, namespace: caller.Namespace()}
	if c.who.namespace == "" {
		c.who.namespace = shard.DefaultNamespace
	}
	c.key = connKey{} // it is checked anew
}

// stranger records that nobody has been proven, and gives the connection its time to do it. As long as the node knows no tokens that
// is not the client's fault, and only the port's bounds hold.
func (c *conn) stranger(refusal *auth.Refusal) {
	if refusal != auth.Young && !c.who.bounded {
		c.who = identity{bounded: true}
		c.nc.SetReadDeadline(time.Now().Add(provenWithin))
	}
	c.who.caller, c.who.refusal = nil, refusal
}

// mayDispatch answers a command that its caller may not send; true: it may be read.
func (c *conn) mayDispatch(v *verb, args [][]byte) bool {
	if c.who.caller != nil {
		if v == nil || c.server.config.Guard == nil {
			return true
		}
		if refusal := c.server.config.Guard.Admit(c.who.caller, v.op); refusal != nil {
			c.refuseFor(v, refusal)
			return false
		}
		return true
	}
	if c.who.refusal == auth.Young {
		if v != nil && v.open {
			return true
		}
		c.refuseFor(v, c.who.refusal)
		return false
	}
	c.who.strange++
	for _, arg := range args {
		if len(args) > strangeArgs || len(arg) > strangeBytes || c.who.strange > strangeCommands {
			c.fail(v, tooStrange)
			c.round.ends = true
			return false
		}
	}
	if v != nil && v.open {
		return true
	}
	c.refuseFor(v, c.who.refusal)
	return false
}

// refuseFor replies why a command is not carried out.
func (c *conn) refuseFor(v *verb, refusal *auth.Refusal) {
	code, text := codeNoPerm, refusal.Message
	switch refusal.Kind {
	case auth.Unproven:
		code, text = codeNoAuth, "Authentication required. "+refusal.Message
	case auth.Unavailable:
		code = codeUnavailable(refusal)
	}
	c.say(v, appendError(nil, code, text)).code = code
}

func codeUnavailable(refusal *auth.Refusal) string {
	if refusal == auth.Young {
		return codeLoading
	}
	return codeTryAgain
}

// granted reports whether the caller may ask about a key; false: the error is the reply.
func (c *conn) granted(v *verb, key []byte) bool {
	if c.who.caller.MayAll() {
		return true
	}
	on := auth.Target{Namespace: c.who.namespace, Key: string(key)}
	if v.ofPolicy {
		on.Policy = c.policy
	}
	if c.who.caller.May(v.op, on) {
		return true
	}
	c.refuseFor(v, auth.NotGrantedError(v.op))
	return false
}

// prove makes the connection the caller of a token; false: the error is the reply. A wrong token ends what was proven before.
func (c *conn) prove(v *verb, name, token []byte) bool {
	config := &c.server.config
	switch {
	case config.Guard != nil && !config.Guard.Set().Known: // whether tokens are asked for too
		c.refuseFor(v, auth.Young)
		return false
	case config.Guard == nil || !config.Guard.Set().Required:
		c.fail(v, noPassword)
		return false
	}
	caller, refusal := config.Guard.Caller(auth.Proof{Port: config.Port, Token: string(token)})
	if refusal == nil && !caller.IsNamed(string(name)) {
		refusal = auth.WrongName
	}
	if refusal == nil {
		c.is(caller)
		return true
	}
	host, _, err := net.SplitHostPort(c.nc.RemoteAddr().String())
	if err == nil && c.server.attempts.Worth(host, time.Now()) {
		config.Logger.Warn("a connection with a wrong token was refused", "address", host)
	}
	c.stranger(refusal)
	code := codeWrongPass
	if refusal.Kind == auth.Unavailable {
		code = codeUnavailable(refusal)
	}
	c.say(v, appendError(nil, code, refusal.Message)).code = code
	return false
}
