package auth

import (
	"crypto/subtle"
	"sync/atomic"
	"time"
)

// Set is everything that a node knows of tokens. It is immutable.
type Set struct {
	// Required means that callers must authenticate.
	Required bool
	// Known means that the node has the cluster's tokens, or that there are none.
	Known bool
	// Outside means that the node belongs to no cluster yet: it serves only its own state.
	Outside bool

	tokens   map[ID]*Caller           // also former tokens, and those that have ended: the caller tells
	roles    map[string]*Caller       // by name
	records  []Record                 // callers point into it
	lastUses map[string]*atomic.Int64 // Unix microseconds, by name; 0 if not used
}

// NewSet makes a set of records, which it keeps. It goes on with the times of last use of the set that it replaces,
// which may be nil.
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

// add adds a token of a caller. It panics if the id or the hash is too short, which readable rules out.
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

// still returns the caller with its present grants, or nil if it was revoked or has expired. A token is found by its id
// and hash: one that was made anew under the name is another caller.
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
