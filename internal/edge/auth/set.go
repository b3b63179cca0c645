package auth

import (
	"crypto/subtle"
	"sync/atomic"
	"time"
)

// Target is what a request is about. "" stands for all of a kind: only a grant that is not narrowed there covers it.
type Target struct {
	Namespace, Policy, Key string
	Tier                   string // that the request names; "": none
	Unlimited              bool   // the tier lifts a limit
}

// Caller is who sent a request. It is never changed, except for the time of its last use.
type Caller struct {
	name     string
	record   *Record // nil: nobody's
	hash     Hash    // of the token that proves it; zero: a role, or nobody's
	ends     int64   // Unix microseconds; 0: never
	grants   []grant
	lastUsed *atomic.Int64 // Unix microseconds; shared by all Sets that have the record
}

// Name is how the audit log calls the caller: "token:web", "role:web", "local"; "" if nobody had to say who they are.
func (c *Caller) Name() string { return c.name }

// IsNamed reports whether a user name of a protocol is that of the caller. "" and "default" are everybody's.
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
	for i := range c.grants {
		if c.grants[i].all {
			return true
		}
	}
	return false
}

// MaySomewhere reports whether the caller may do an operation on anything at all.
func (c *Caller) MaySomewhere(op Op) bool {
	for i := range c.grants {
		if c.grants[i].has(op) {
			return true
		}
	}
	return op == NoOp
}

// MayGrant reports whether the caller has all that a grant would give: nobody gives away what they do not have.
func (c *Caller) MayGrant(g *Grant) bool {
	wanted := g.ready()
	for op := NoOp + 1; op < opCount; op++ {
		if !wanted.has(op) {
			continue
		}
		covered := false
		for i := range c.grants {
			covered = covered || c.grants[i].contains(&wanted, op)
		}
		if !covered {
			return false
		}
	}
	return true
}

// MayGrantUntil reports whether the caller is good for as long as a grant until an instant would be; 0: for ever.
func (c *Caller) MayGrantUntil(ends int64) bool { return c.ends == 0 || ends != 0 && ends <= c.ends }

// Ends is the instant from which the caller is nobody, in Unix microseconds; 0: never.
func (c *Caller) Ends() int64 { return c.ends }

// Namespace is the only namespace that the caller may name; "": there are several, or all.
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

// use notes that the caller was here, to the second.
func (c *Caller) use(now int64) {
	const second = int64(time.Second / time.Microsecond)
	if c.lastUsed != nil && now-c.lastUsed.Load() >= second {
		c.lastUsed.Store(now)
	}
}

// Set is all that a node knows of tokens. It is never changed.
type Set struct {
	// Required means that callers must prove who they are.
	Required bool
	// Known means that the node has heard of the cluster's tokens, or that there are none.
	Known bool
	// Outside means that the node belongs to no cluster yet: it can tell that, and nothing else.
	Outside bool

	tokens  map[ID]*Caller
	roles   map[string]*Caller
	records []Record
}

// LastUses remembers when tokens were last used on this node. Its owner makes all Sets with it.
type LastUses struct{ times map[string]*atomic.Int64 }

// NewSet makes the set of some records. It is to be called by one goroutine at a time for the same uses.
func NewSet(records []Record, required bool, uses *LastUses) *Set {
	s := &Set{Required: required, Known: true, tokens: make(map[ID]*Caller), roles: make(map[string]*Caller), records: records}
	if uses.times == nil {
		uses.times = make(map[string]*atomic.Int64)
	}
	kept := make(map[string]*atomic.Int64, len(records))
	for i := range records {
		r := &records[i]
		c := Caller{record: r, name: r.actor(), ends: r.Expires, lastUsed: uses.times[r.Name]}
		if c.lastUsed == nil {
			c.lastUsed = new(atomic.Int64)
		}
		kept[r.Name] = c.lastUsed
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
	uses.times = kept
	return s
}

func (s *Set) add(c Caller, id string, hash []byte) {
	c.hash = Hash(hash)
	s.tokens[ID([]byte(id))] = &c
}

// Records lists what the set was made of. The caller must not change them.
func (s *Set) Records() []Record { return s.records }

// LastUses is when records were last used on this node, by name; absent: not since the node started.
func (s *Set) LastUses() map[string]time.Time {
	uses := make(map[string]time.Time)
	for _, c := range s.tokens {
		c.tellUse(uses)
	}
	for _, c := range s.roles {
		c.tellUse(uses)
	}
	return uses
}

func (c *Caller) tellUse(uses map[string]time.Time) {
	if at := c.lastUsed.Load(); at != 0 {
		uses[c.record.Name] = time.UnixMicro(at)
	}
}

// ofToken returns the caller whom a token proves; nil: nobody.
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

// ofRole returns the caller of a role; nil: there is no such role.
func (s *Set) ofRole(name string, now int64) *Caller {
	if c := s.roles[name]; c != nil && !c.ended(now) {
		return c
	}
	return nil
}

func (c *Caller) ended(now int64) bool { return c.ends != 0 && now >= c.ends }

// still returns the caller as this set has it, with the grants that are in force now; nil: it was revoked or has expired.
func (s *Set) still(c *Caller, now int64) *Caller {
	if c.record == nil {
		return c
	}
	if c.record.IsRole() {
		return s.ofRole(c.record.Name, now)
	}
	for _, id := range c.ids() {
		if present := s.tokens[ID([]byte(id))]; present != nil && present.hash == c.hash && !present.ended(now) {
			return present
		}
	}
	return nil
}

// ids lists the ids that the token of the caller can have.
func (c *Caller) ids() []string {
	if c.record.Former != nil {
		return []string{c.record.ID, c.record.Former.ID}
	}
	return []string{c.record.ID}
}
