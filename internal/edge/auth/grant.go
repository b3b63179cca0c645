package auth

import (
	"fmt"
	"slices"
	"strings"
)

// admin stands for every operation, on everything.
const admin = "admin"

// Grant allows operations on some keys. An empty list means all of them, except for Tiers, where it means none. As JSON
// it is part of stored records: its fields keep their names.
type Grant struct {
	Namespaces []string `json:",omitempty"`
	Policies   []string `json:",omitempty"`
	Keys       []string `json:",omitempty"` // a key, or with a star at the end the beginning of keys
	Tiers      []string `json:",omitempty"` // that a request may name; a star means all limited tiers
	Ops        []string // by name; unknown names grant nothing
}

// Everything is the grant of an administrator.
func Everything() Grant { return Grant{Ops: []string{admin}} }

// Bounds of a record.
const (
	grantsMax = 16
	itemsMax  = 64  // in one list of a grant
	itemMax   = 256 // bytes
)

// Problem returns the problem with a grant, or "".
func (g *Grant) Problem() string {
	for _, list := range g.lists() {
		if n := len(*list.items); n > itemsMax {
			return fmt.Sprintf("names %d %s: at most %d are allowed", n, list.plural, itemsMax)
		}
		for _, item := range *list.items {
			switch {
			case item == "" || len(item) > itemMax:
				return fmt.Sprintf("has one of its %s of %d bytes: 1 to %d are allowed",
					list.plural, len(item), itemMax)
			case item == "*" && list.name != "tier" && list.name != "key":
				return fmt.Sprintf("has a star among its %s: leave them out to allow all", list.plural)
			}
		}
	}
	if len(g.Ops) == 0 {
		return "allows nothing: ops=check,settle says what"
	}
	for _, name := range g.Ops {
		op := opOf(name)
		switch {
		case name == admin && len(g.Ops) == 1 && !g.narrowed():
		case name == admin:
			return "has admin, which allows everything: leave everything else out"
		case op == NoOp:
			return fmt.Sprintf("has no operation %q: %s or admin", name, strings.Join(opNames[1:], ", "))
		case !op.ofKeys() && g.narrowed():
			return fmt.Sprintf("has %s, which is about the whole cluster: "+
				"give it in a grant without namespaces, policies and keys", name)
		}
	}
	return ""
}

// narrowed reports whether the grant covers only some keys.
func (g *Grant) narrowed() bool {
	return len(g.Namespaces) > 0 || len(g.Policies) > 0 || len(g.Keys) > 0 || len(g.Tiers) > 0
}

// String writes the grant in the form of ParseGrant.
func (g *Grant) String() string {
	var parts []string
	for _, list := range g.lists() {
		if len(*list.items) > 0 {
			parts = append(parts, list.name+"="+strings.Join(*list.items, ","))
		}
	}
	return strings.Join(parts, " ")
}

// namedList is a list of a grant: its name in ParseGrant's form, and in sentences.
type namedList struct {
	name, plural string
	items        *[]string
}

// lists returns all lists of the grant, in the order of their text. ParseGrant fills them through items.
func (g *Grant) lists() []namedList {
	return []namedList{{"ns", "namespaces", &g.Namespaces}, {"policy", "policies", &g.Policies},
		{"key", "keys", &g.Keys}, {"tier", "tiers", &g.Tiers}, {"ops", "operations", &g.Ops}}
}

// ParseGrant reads a text such as "ns=shop policy=login key=user:* tier=vendor ops=check,settle".
func ParseGrant(text string) (Grant, error) {
	var g Grant
	for _, part := range strings.Fields(text) {
		name, value, found := strings.Cut(part, "=")
		lists := g.lists()
		i := slices.IndexFunc(lists, func(l namedList) bool { return l.name == name })
		switch {
		case !found || i < 0:
			return Grant{}, fmt.Errorf("%q: is none of ns=, policy=, key=, tier= and ops=", part)
		case len(*lists[i].items) > 0:
			return Grant{}, fmt.Errorf("%s= is there twice: write %s=a,b", name, name)
		}
		*lists[i].items = strings.Split(value, ",")
	}
	if problem := g.Problem(); problem != "" {
		return Grant{}, fmt.Errorf("the grant %q %s", text, problem)
	}
	return g, nil
}

// grant is a Grant prepared for checks. It shares the lists of the Grant.
type grant struct {
	all                               bool     // admin: the lists mean nothing then
	ops                               uint32   // the bit 1<<op for each Op
	namespaces, policies, keys, tiers []string // an empty one means the same as in Grant
}

// Target is what a request is about. "" stands for all of a kind: only a grant without a restriction there covers it.
type Target struct {
	Namespace, Policy, Key string
	Tier                   string // named by the request; may be empty
	Unlimited              bool   // the tier lifts a limit
}

// ready prepares the grant. Unknown operations, which a newer version may have granted, are left out.
func (g *Grant) ready() grant {
	ready := grant{namespaces: g.Namespaces, policies: g.Policies, keys: g.Keys, tiers: g.Tiers}
	for _, name := range g.Ops {
		if name == admin {
			return grant{all: true, ops: 1<<opCount - 1}
		}
		if op := opOf(name); op != NoOp {
			ready.ops |= 1 << op
		}
	}
	return ready
}

func (g *grant) has(op Op) bool { return g.ops&(1<<op) != 0 }

// covers reports whether the grant covers a target.
func (g *grant) covers(on *Target) bool {
	return g.all || (len(g.namespaces) == 0 || slices.Contains(g.namespaces, on.Namespace)) &&
		(len(g.policies) == 0 || slices.Contains(g.policies, on.Policy)) &&
		(len(g.keys) == 0 || on.Key != "" && matches(g.keys, on.Key)) &&
		//mutant:star-grants-unlimited
		(on.Tier == "" || slices.Contains(g.tiers, on.Tier) || slices.Contains(g.tiers, "*") && !on.Unlimited)
}

// contains reports whether the grant allows everything that another one allows for one of its operations.
func (g *grant) contains(other *grant, op Op) bool {
	if g.all || other.all {
		return g.all
	}
	subset := func(some, all []string, has func(all []string, item string) bool) bool {
		return len(all) == 0 || len(some) > 0 && !slices.ContainsFunc(some, func(item string) bool {
			return !has(all, item)
		})
	}
	tiers := !slices.ContainsFunc(other.tiers, func(tier string) bool { return !slices.Contains(g.tiers, tier) })
	return g.has(op) && subset(other.namespaces, g.namespaces, slices.Contains) &&
		subset(other.policies, g.policies, slices.Contains) && subset(other.keys, g.keys, matches) && tiers
}

// matches reports whether one of the patterns matches a key, or everything that another pattern matches.
func matches(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, is := strings.CutSuffix(pattern, "*")
		return key == pattern || is && strings.HasPrefix(key, prefix)
	})
}
