package shard

import (
	"fmt"
	"strings"

	"github.com/stint-io/stint/policy"
)

// ParentOf returns the entry that is decided together with e because e's policy has a parent: a cost on
// "vendor:acme/product:x" is also counted by the parent on "vendor:acme". It returns false if there is none. The
// returned entry has no Tier, since tiers belong to one policy.
func ParentOf(policies *policy.Set, e *Entry) (Entry, bool) {
	if e.Limits != nil {
		return Entry{}, false
	}
	p, found := policies.Lookup(e.Policy)
	if !found || p.Parent == "" {
		return Entry{}, false
	}
	cut := strings.LastIndexByte(e.Key, '/')
	if cut <= 0 {
		return Entry{}, false
	}
	return Entry{Policy: p.Parent, Key: e.Key[:cut], Cost: e.Cost}, true
}

// outdated refuses a request with parents added by older policies than the shard's, if these have a parent for an entry
// and the request does not include it: it would bypass the parent's pool. The parent of a part of an operation may have
// gone to another shard, which is not visible here, so that is refused too.
func (b *batch) outdated(r *Request) *Error {
	if err := b.keyFormProblem(r); err != nil {
		return err
	}
	if r.Revision == 0 || r.Revision >= b.policies.Version() {
		return nil
	}
	for i := range r.Entries {
		parent, has := ParentOf(b.policies, &r.Entries[i])
		for j := range r.Entries {
			has = has && (r.Entries[j].Policy != parent.Policy || r.Entries[j].Key != parent.Key)
		}
		if has {
			return &Error{Code: Outdated, Field: fmt.Sprintf("entries[%d].policy", i), RetryAfter: 500e3,
				Message: fmt.Sprintf(
					"has a parent %q by version %d of the policies, and the node that was asked knows version %d; "+
						"nothing was counted, ask again", parent.Policy, b.policies.Version(), r.Revision)}
		}
	}
	return nil
}

// keyFormProblem refuses a request with keys in another form than the shard's policies require: if it counted, its
// units would be spent on keys that no other request uses. Requests made by newer policies than the shard's are not
// checked. A settlement names the keys that were charged, in the form of that time. (R22.)
func (b *batch) keyFormProblem(r *Request) *Error {
	//mutant:other-form-counted
	if r.Hashed == b.policies.HashesKeys(r.Namespace) || r.Op == Settle || r.Revision > b.policies.Version() {
		return nil
	}
	return &Error{Code: Outdated, RetryAfter: 500e3,
		Message: fmt.Sprintf("whether the keys of namespace %q are hashed has changed, "+
			"and not all nodes know it yet; nothing was counted, ask again", r.Namespace)}
}
