package auth

import (
	"slices"
	"sync/atomic"
	"time"
)

// Caller is the sender of a request. It is immutable, except for the time of its last use. A Set has one Caller for
// each role, and one for each token, former ones included.
type Caller struct {
	name     string  // in the audit log, with its kind: "token:web"
	record   *Record // nil for a caller without a record
	hash     Hash    // of the token; zero for a role, or without a record
	ends     int64   // Unix microseconds; 0 means never
	grants   []grant
	lastUsed *atomic.Int64 // Unix microseconds; shared by all Sets that have the record; nil without one
}

// The callers without a record. A guest must not lift a limit by naming an unlimited tier: that takes authentication.
var (
	// local is every caller of the socket in the data directory.
	local = &Caller{name: "local", grants: []grant{{all: true, ops: 1<<opCount - 1}}}
	// anybody is every caller of a loopback port while no tokens are required.
	anybody = &Caller{grants: []grant{{all: true, ops: 1<<opCount - 1}}}
	// outsider may ask a node without a cluster for its state.
	outsider = &Caller{}
	// guest is every caller of a trusted port while no tokens are required.
	guest = &Caller{grants: []grant{{ops: 1<<opCount - 1, tiers: []string{"*"}}}}
)

// Anybody returns the caller of places that need no authentication.
func Anybody() *Caller { return anybody }

// Name returns the caller's name in the audit log: "token:web", "role:web", "local", or "" if no authentication was
// required.
func (c *Caller) Name() string { return c.name }

// IsNamed reports whether a protocol's user name fits the caller. "" and "default" fit every caller.
func (c *Caller) IsNamed(user string) bool {
	return user == "" || user == "default" || c.record != nil && c.record.Name == user
}

// May reports whether the caller may do an operation on a target.
func (c *Caller) May(op Op, on Target) bool {
	for i := range c.grants {
		if c.grants[i].has(op) && c.grants[i].covers(&on) {
			return true
		}
	}
	return op == NoOp
}

// MayAll reports whether the caller may do everything on everything, so that no key needs to be checked.
func (c *Caller) MayAll() bool {
	return slices.ContainsFunc(c.grants, func(g grant) bool { return g.all })
}

// MaySomewhere reports whether the caller may do an operation on any target.
func (c *Caller) MaySomewhere(op Op) bool {
	for i := range c.grants {
		if c.grants[i].has(op) {
			return true
		}
	}
	return op == NoOp
}

// MayGrant reports whether the caller has every right of a grant: a caller cannot give away rights that it lacks.
func (c *Caller) MayGrant(g *Grant) bool {
	wanted := g.ready()
	for op := NoOp + 1; op < opCount; op++ {
		if wanted.has(op) && !slices.ContainsFunc(c.grants, func(own grant) bool { return own.contains(&wanted, op) }) {
			return false
		}
	}
	return true
}

// MayGrantUntil reports whether the caller's own record lasts until an instant; 0 means for ever.
func (c *Caller) MayGrantUntil(ends int64) bool { return c.ends == 0 || ends != 0 && ends <= c.ends }

// Line returns the Line of what the caller makes; nil for a caller without a record.
func (c *Caller) Line() []string {
	if c.record == nil {
		return nil
	}
	return append(slices.Clone(c.record.Line), c.record.Name)
}

// Ends returns when the caller's record ends, in Unix microseconds; 0 means never.
func (c *Caller) Ends() int64 { return c.ends }

// Namespace returns the only namespace that the caller may name, or "" if there are several, or all.
func (c *Caller) Namespace() (only string) {
	for i := range c.grants {
		for _, namespace := range c.grants[i].namespaces {
			if only != "" && namespace != only {
				return ""
			}
			only = namespace
		}
		if len(c.grants[i].namespaces) == 0 {
			return ""
		}
	}
	return only
}

// use records a use by the caller, at most once a second: the requests of one token do not contend for it.
func (c *Caller) use(now int64) {
	const second = int64(time.Second / time.Microsecond)
	if c.lastUsed != nil && now-c.lastUsed.Load() >= second {
		c.lastUsed.Store(now)
	}
}

func (c *Caller) ended(now int64) bool { return c.ends != 0 && now >= c.ends }
