package auth

import (
	"crypto/subtle"
	"slices"
	"sync/atomic"
	"time"
)

// Target is what a request is about. "" stands for all of a kind: only a grant without a restriction there covers it.
type Target struct {
	Namespace, Policy, Key string
	Tier                   string // named by the request; may be empty
	Unlimited              bool   // the tier lifts a limit
}

// Caller is the sender of a request. It is immutable, except for the time of its last use.
type Caller struct {
	name     string
	record   *Record // nil for a caller without a record
	hash     Hash    // of the token; zero for a role, or without a record
	ends     int64   // Unix microseconds; 0 means never
	grants   []grant
	lastUsed *atomic.Int64 // Unix microseconds; shared by all Sets that have the record
}

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

// MayAll reports whether the caller may do everything.
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

// use records a use by the caller, to the second.
func (c *Caller) use(now int64) {
	const second = int64(time.Second / time.Microsecond)
	if c.lastUsed != nil && now-c.lastUsed.Load() >= second {
		c.lastUsed.Store(now)
	}
}

// Set is everything that a node knows of tokens. It is immutable.
type Set struct {
	// Required means that callers must authenticate.
	Required bool
	// Known means that the node has the cluster's tokens, or that there are none.
	Known bool
	// Outside means that the node belongs to no cluster yet: it serves only its own state.
	Outside bool

	tokens   map[ID]*Caller
	roles    map[string]*Caller
	records  []Record
	lastUses map[string]*atomic.Int64 // Unix microseconds, by name; 0 if not used
}

// NewSet makes a set of records. It goes on with the times of last use of the set that it replaces, which may be nil.
func NewSet(records []Record, required bool, before *Set) *Set {
	s := &Set{Required: required, Known: true, tokens: make(map[ID]*Caller), roles: make(map[string]*Caller),
		records: records, lastUses: make(map[string]*atomic.Int64, len(records))}
	for i := range records {
		r := &records[i]
		c := Caller{record: r, name: r.actor(), ends: r.Expires, lastUsed: new(atomic.Int64)}
		if before != nil && before.lastUses[r.Name] != nil {
			c.lastUsed = before.lastUses[r.Name]
		}
		s.lastUses[r.Name] = c.lastUsed
		for j := range r.Grants {
			c.grants = append(c.grants, r.Grants[j].ready())
		}
		if r.IsRole() {
			s.roles[r.Name] = &c
			continue
		}
		s.add(c, r.ID, r.Hash)
		if f := r.Former; f != nil {
			if c.ends == 0 || f.Ends < c.ends {
				c.ends = f.Ends
			}
			s.add(c, f.ID, f.Hash)
		}
	}
	return s
}

func (s *Set) add(c Caller, id string, hash []byte) {
	c.hash = Hash(hash)
	s.tokens[ID([]byte(id))] = &c
}

// Records lists the records of the set. The caller must not change them.
func (s *Set) Records() []Record { return s.records }

// LastUses returns when records were last used on this node, by name; absent if not since the node started.
func (s *Set) LastUses() map[string]time.Time {
	uses := make(map[string]time.Time)
	for name, last := range s.lastUses {
		if at := last.Load(); at != 0 {
			uses[name] = time.UnixMicro(at)
		}
	}
	return uses
}

// ofToken returns the caller with a token, or nil.
func (s *Set) ofToken(text string, now int64) *Caller {
	id, ok := idOf(text)
	if !ok {
		return nil
	}
	hash := hashOf(text)
	c := s.tokens[id]
	//mutant:expired-token-accepted //mutant:token-known-by-its-id
	if c == nil || subtle.ConstantTimeCompare(hash[:], c.hash[:]) != 1 || c.ended(now) {
		return nil
	}
	return c
}

// ofRole returns the caller with a role, or nil if there is no such role.
func (s *Set) ofRole(name string, now int64) *Caller {
	if c := s.roles[name]; c != nil && !c.ended(now) {
		return c
	}
	return nil
}

func (c *Caller) ended(now int64) bool { return c.ends != 0 && now >= c.ends }

// still returns the caller with its present grants, or nil if it was revoked or has expired.
func (s *Set) still(c *Caller, now int64) *Caller {
	if c.record == nil {
		return c
	}
	if c.record.IsRole() {
		return s.ofRole(c.record.Name, now)
	}
	ids := []string{c.record.ID}
	if f := c.record.Former; f != nil {
		ids = append(ids, f.ID)
	}
	for _, id := range ids {
		if present := s.tokens[ID([]byte(id))]; present != nil && present.hash == c.hash && !present.ended(now) {
			return present
		}
	}
	return nil
}
