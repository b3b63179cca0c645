package redis

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// Bounds on an unauthenticated connection. Redis had to add them later (CVE-2021-32675, CVE-2025-21605).
const (
	provenWithin    = 5 * time.Second
	strangeCommands = 16
	strangeArgs     = 10
	strangeBytes    = 1 << 10  // of an argument
	strangeHeld     = 16 << 10 // bytes of an incomplete command
)

const tooStrange = "the connection is not authenticated, and sends too much: AUTH comes first"

const (
	codeNoAuth    = "NOAUTH"
	codeWrongPass = "WRONGPASS"
	codeNoPerm    = "NOPERM"
	codeLoading   = "LOADING" // the node has just started: a Redis client retries
)

// identity is the caller of a connection. The goroutine that reads the connection owns it.
type identity struct {
	caller    *auth.Caller  // nil if not authenticated
	refusal   *auth.Refusal // why it is nil
	namespace string        // the namespace of the commands
	strange   int           // commands that came before authentication
	bounded   bool          // the connection must authenticate in time
}

// awaitTokens waits until the node has the tokens, at most as long as a command may take, so that clients of a starting
// node are answered late instead of refused.
func (c *conn) awaitTokens() {
	ctx, cancel := context.WithTimeout(c.server.ctx, c.server.config.RequestTimeout)
	defer cancel()
	c.server.config.Guard.Await(ctx)
}

// identify checks the caller before a round: its token may have been revoked meanwhile, or the cluster may have begun
// to require one.
func (c *conn) identify() {
	guard := c.server.config.Guard
	var refusal *auth.Refusal
	caller := c.who.caller
	if caller == nil {
		proof := auth.Proof{Port: c.server.config.Port}
		if !c.shown { //mutant:redis-token-falls-back-to-role
			proof.Role = c.role
		}
		caller, refusal = guard.Caller(proof)
	} else {
		caller, refusal = guard.Still(caller, c.server.config.Port)
	}
	if caller == nil {
		c.stranger(refusal)
		return
	}
	c.is(caller)
}

// is records an authenticated caller.
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
	c.key = connKey{} // it is checked again
}

// stranger records that the caller is not authenticated, and starts the time limit for it. As long as the node has no
// tokens that is not the client's fault, and only the port's bounds apply.
func (c *conn) stranger(refusal *auth.Refusal) {
	if refusal != auth.Young && !c.who.bounded {
		c.who = identity{bounded: true}
		c.nc.SetReadDeadline(time.Now().Add(provenWithin))
	}
	c.who.caller, c.who.refusal = nil, refusal
}

// mayDispatch answers a command that its caller may not send. It returns true if the command may be read.
func (c *conn) mayDispatch(v *verb, args [][]byte) bool {
	if c.who.caller != nil {
		return v == nil || c.admits(v)
	}
	if c.who.refusal != auth.Young {
		c.who.strange++
		if len(args) > strangeArgs || c.who.strange > strangeCommands ||
			slices.ContainsFunc(args, func(arg []byte) bool { return len(arg) > strangeBytes }) {
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

// admits reports whether the caller may do what a command does. If not, it replies with the error.
func (c *conn) admits(v *verb) bool {
	refusal := c.server.config.Guard.Admit(c.who.caller, v.op)
	if refusal != nil {
		c.refuseFor(v, refusal)
	}
	return refusal == nil
}

// refuseFor replies why a command is not carried out.
func (c *conn) refuseFor(v *verb, refusal *auth.Refusal) {
	code, text := codeNoPerm, refusal.Message
	switch {
	case refusal == auth.Young:
		code = codeLoading
	case refusal.Kind == auth.Unavailable:
		code = codeTryAgain
	case refusal.Kind == auth.Unproven:
		code, text = codeNoAuth, "Authentication required. "+refusal.Message
	}
	c.say(v, appendError(nil, code, text)).code = code
}

// granted reports whether the caller may ask about a key. If not, it replies with the error.
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

// prove authenticates the connection by a token. On failure it replies with the error and returns false; a wrong token
// also drops the earlier authentication.
func (c *conn) prove(v *verb, name, token []byte) bool {
	config := &c.server.config
	switch {
	case !config.Guard.Set().Known: // not known yet: whether tokens are required at all
		c.refuseFor(v, auth.Young)
		return false
	case !config.Guard.Set().Required:
		c.fail(v, noPassword)
		return false
	}
	c.shown = true // the commands that follow are for the token's grants, and for its namespace
	caller, refusal := config.Guard.Caller(auth.Proof{Port: config.Port, Token: string(token)})
	if refusal == nil && !caller.IsNamed(string(name)) {
		refusal = auth.WrongName
	}
	if refusal == nil {
		c.is(caller)
		return true
	}
	host, _, err := net.SplitHostPort(c.nc.RemoteAddr().String())
	if _, ok := c.server.attempts.Allow(host, time.Now()); ok && err == nil {
		config.Logger.Warn("a connection with a wrong token was refused", "address", host)
	}
	c.stranger(refusal)
	if refusal.Kind == auth.Unavailable {
		c.refuseFor(v, refusal)
	} else {
		c.say(v, appendError(nil, codeWrongPass, refusal.Message)).code = codeWrongPass
	}
	return false
}
