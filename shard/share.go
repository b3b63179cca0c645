package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-io/stint/policy"
)

// One client must not fill a shard for all. So the records of a shard are counted by namespace, and the counters among
// them by policy too:
//
//   - A policy may have MaxKeys. Then a shard counts no more keys of a namespace under it than its part of them (Room).
//   - When three quarters of the memory are used, the rest is kept for others: a policy, or a namespace, that takes
//     more than half adds no record as long as the shard has anything else. A policy that has the shard to itself may
//     fill it.
//
// A record counts for its namespace: counters, answers to ids, and the records of operations on several shards.
// Sessions, ends of holds, and the shard's own records count for none. Holds, ladders and overrides are parts of
// counters. Only requests that would add a record are refused; existing keys go on. The refusal certainly counts
// nothing, and is never a denial.
//
// The counts are derived from the records. They are in no sum and no snapshot. A record that has ended counts until it
// is swept.

// Shares is how much of a shard a policy of a namespace takes.
type Shares struct {
	Policy    Share // its counters
	Namespace Share // all records of the namespace
	All       Share // of all namespaces
}

// Share is a number of records. Bytes are those of keys and values.
type Share struct{ Keys, Bytes int }

func (s *Share) add(keys, bytes int) { s.Keys, s.Bytes = s.Keys+keys, s.Bytes+bytes }

// shares counts records by namespace, and counters also by policy. The zero value has counted none.
type shares struct {
	namespaces map[string]*Share // by namespace, preceded by its length
	policies   map[string]*Share // by the same, and the policy, preceded by its length
	all        Share
}

// shareNames returns the names under which a record counts, or "" if it counts under none.
func shareNames(key string) (namespace, policy string) {
	begin, end := headOf(key)
	namespace = key[min(1, begin):begin]
	if end == 0 {
		return namespace, ""
	}
	//mutant:inline-labels-escape-their-share
	if policy = key[1:end]; end > begin+1 && key[begin+1] == InlinePolicy[0] && key[begin] < 0x80 {
		policy = key[1:begin] + "\x01" + InlinePolicy
	}
	return namespace, policy
}

// count is the table.Count of the shares. It allocates nothing for known names.
func (s *shares) count(key string, keys, bytes int) {
	namespace, policy := shareNames(key)
	if namespace == "" {
		return
	}
	if s.namespaces == nil {
		s.namespaces, s.policies = make(map[string]*Share), make(map[string]*Share)
	}
	s.all.add(keys, bytes)
	countIn(s.namespaces, namespace, keys, bytes)
	if policy != "" {
		countIn(s.policies, policy, keys, bytes)
	}
}

func countIn(in map[string]*Share, name string, keys, bytes int) {
	one := in[name]
	if one == nil {
		one = &Share{}
		in[strings.Clone(name)] = one
	}
	if one.add(keys, bytes); one.Keys == 0 {
		delete(in, name)
	}
}

// shareKeys returns the names of a namespace and of a policy in it.
func shareKeys(namespace, policy string) (ofNamespace, ofPolicy string) {
	b := appendString(nil, namespace)
	return string(b), string(appendString(b, policy))
}

func (s *shares) of(namespace, policy string) Shares {
	ofNamespace, ofPolicy := shareKeys(namespace, policy)
	told := Shares{All: s.all}
	if one := s.namespaces[ofNamespace]; one != nil {
		told.Namespace = *one
	}
	if one := s.policies[ofPolicy]; one != nil {
		told.Policy = *one
	}
	return told
}

// CapUse is how many keys a shard counts under a policy with MaxKeys, in the namespace that has most.
type CapUse struct {
	Policy, Namespace string
	Keys              int
	MaxKeys           uint64 // the shard's part of the policy's
}

// CapUses lists the policies with MaxKeys that have keys, in alphabetical order. It takes a moment for each policy of
// each namespace.
func (s *State) CapUses(set *policy.Set, room Room) (uses []CapUse) {
	most := make(map[string]CapUse)
	for name, share := range s.shares.policies {
		use, end := CapUse{Keys: share.Keys}, 0
		use.Namespace, end, _ = stringAt(name, 0)
		use.Policy, _, _ = stringAt(name, end)
		if had, ok := most[use.Policy]; ok &&
			(use.Keys < had.Keys || use.Keys == had.Keys && use.Namespace > had.Namespace) {
			continue
		}
		if p, ok := set.Lookup(use.Policy); ok && p.MaxKeys > 0 {
			use.MaxKeys = room.keys(p.MaxKeys)
			most[use.Policy] = use
		}
	}
	for _, name := range slices.Sorted(maps.Keys(most)) {
		uses = append(uses, most[name])
	}
	return uses
}

// Near reports whether a tenth of them is left, or less.
func (u *CapUse) Near() bool { return uint64(u.Keys) >= u.MaxKeys-u.MaxKeys/10 }

// batchShares are the shares that a batch has looked up, and the keys that it has added itself.
type batchShares struct {
	asked map[[2]string]Shares // by namespace and policy, as in the view
	added map[string]int       // by policy, as in shares
}

func (s *batchShares) add(key string) {
	if _, policy := shareNames(key); policy != "" {
		s.added[policy]++
	}
}

// sharesOf looks up shares in the view, once for each policy of a namespace.
func (b *batch) sharesOf(namespace, policy string) Shares {
	if b.shares == nil {
		b.shares = &batchShares{asked: make(map[[2]string]Shares), added: make(map[string]int)}
		for _, c := range b.order {
			if !c.known {
				b.shares.add(c.key)
			}
		}
	}
	name := [2]string{namespace, policy}
	s, known := b.shares.asked[name]
	if !known {
		s = b.view.Shares(namespace, policy)
		b.shares.asked[name] = s
	}
	_, ofPolicy := shareKeys(namespace, policy)
	s.Policy.Keys += b.shares.added[ofPolicy]
	return s
}

// capped refuses the i-th entry of a request with a new key, if its policy or its namespace has too many.
func (e *evaluation) capped(r *Request, i int, p *policy.Policy) *Error {
	if p.MaxKeys == 0 && !e.room.crowded() {
		return nil
	}
	name := r.Entries[i].Policy
	if p == inlinePolicy {
		name = InlinePolicy
	}
	s := e.sharesOf(r.Namespace, name)
	added := 0 // by earlier entries of the request
	for j := range e.charges {
		ch := &e.charges[j]
		added += int(bit(ch.policy == p && !ch.looks && ch.counter.unseen())) //mutant:request-passes-the-cap
	}
	field := fmt.Sprintf("entries[%d].key", i)
	//mutant:every-shard-has-the-whole-cap
	if most := e.room.keys(p.MaxKeys); p.MaxKeys > 0 && uint64(s.Policy.Keys+added) >= most {
		return errorf(MemoryFull, field, "would be a new one: policy %q counts %d keys of namespace %q on shard %d, "+
			"whose part of max_keys is %d of %d; nothing was counted: wait until old ones end, or raise max_keys",
			name, s.Policy.Keys+added, r.Namespace, e.at.Shard, most, p.MaxKeys)
	}
	if e.room.crowded() && takesMost(s.Policy, s.All) {
		return errorf(MemoryFull, field, "would be a new one: the keys of policy %q in namespace %q take more than "+
			"half of shard %d, and the last quarter of the memory is for others; nothing was counted: "+
			"wait until old ones end, or bound the policy with max_keys", name, r.Namespace, e.at.Shard)
	}
	return e.crowdedBy(r)
}

// crowdedBy refuses a request that would add any record to a full shard, or to a crowded one if its namespace takes
// most of it.
func (e *evaluation) crowdedBy(r *Request) *Error {
	switch {
	case e.room.full():
		return e.full()
	case !e.room.crowded():
		return nil
	}
	if s := e.sharesOf(r.Namespace, ""); takesMost(s.Namespace, s.All) {
		return errorf(MemoryFull, "namespace", "%q takes more than half of shard %d, "+
			"and the last quarter of the memory is for others: new keys and ids are refused; nothing was counted: "+
			"wait until old ones end, or spread the keys over more {tags}", r.Namespace, e.at.Shard)
	}
	return nil
}

// takesMost reports whether one takes more than half of all, and there are others.
//
//mutant:alone-may-not-fill
func takesMost(one, all Share) bool { return one.Keys < all.Keys && 2*one.Bytes > all.Bytes }
