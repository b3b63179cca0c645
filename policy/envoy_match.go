package policy

import (
	"strconv"
	"strings"
)

// envoyNode is a step on the path to a domain's rules, one for each entry of a descriptor.
type envoyNode struct {
	rule     *EnvoyRule                // the rule that ends here, or nil
	next     map[EnvoyEntry]*envoyNode // by key and value; "*" is for values that meet nothing else
	patterns []envoyPattern            // in the order of the file
}

type envoyPattern struct {
	key   string
	parts []string // literal text around each "*"
	text  string   // the pattern as written; rules with the same one share a node
	next  *envoyNode
}

// compile builds the tree of the rules. It must be called before the domain is shared.
func (e *EnvoyDomain) compile() {
	e.root = newEnvoyNode()
	for i := range e.Rules {
		n := e.root
		for _, m := range e.Rules[i].Match {
			n = n.toward(m)
		}
		n.rule = &e.Rules[i]
	}
}

func newEnvoyNode() *envoyNode { return &envoyNode{next: map[EnvoyEntry]*envoyNode{}} }

// toward returns the node after one step of a rule, creating it if needed.
func (n *envoyNode) toward(m EnvoyEntry) *envoyNode {
	if m.Value != "*" && strings.Contains(m.Value, "*") {
		for _, p := range n.patterns {
			if p.key == m.Key && p.text == m.Value {
				return p.next
			}
		}
		n.patterns = append(n.patterns, envoyPattern{m.Key, strings.Split(m.Value, "*"), m.Value, newEnvoyNode()})
		return n.patterns[len(n.patterns)-1].next
	}
	if n.next[m] == nil {
		n.next[m] = newEnvoyNode()
	}
	return n.next[m]
}

// Match returns the rule that a descriptor meets, or nil. Each entry of the descriptor goes one step: to the rules with
// its exact value, else to those with the first pattern in the file that it meets, else to those with "*". There is no
// backtracking, and a rule matches only descriptors of its own length. This is how envoyproxy/ratelimit finds a limit
// (src/config/config_impl.go, GetLimit).
func (e *EnvoyDomain) Match(descriptor []EnvoyEntry) *EnvoyRule {
	n := e.root
	for _, pair := range descriptor {
		if n = n.step(pair); n == nil {
			return nil
		}
	}
	return n.rule
}

// step returns the node after one entry of a descriptor, or nil. A value that is "*" itself is no exact match: in next,
// "*" stands for any text.
func (n *envoyNode) step(pair EnvoyEntry) *envoyNode {
	if next := n.next[pair]; next != nil && pair.Value != "*" {
		return next
	}
	for i := range n.patterns {
		if p := &n.patterns[i]; p.key == pair.Key && p.admits(pair.Value) {
			return p.next
		}
	}
	return n.next[EnvoyEntry{pair.Key, "*"}]
}

// admits reports whether the value consists of the literal parts in their order, with any text between them.
func (p *envoyPattern) admits(value string) bool {
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	rest := value[len(first) : len(value)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// Key returns the key of an entry of a rule that the descriptor has met.
func (r *EnvoyRule) Key(e *RuleEntry, descriptor []EnvoyEntry) string {
	if e.Key.text == "" {
		return string(BoundKey(DescriptorKey(descriptor)))
	}
	return e.Key.Key(func(field string) (named string) {
		for i, m := range r.Match { // a number is a position, even if a key has it as its name
			if strconv.Itoa(i+1) == field {
				return descriptor[i].Value
			}
			if m.Key == field {
				named = descriptor[i].Value
			}
		}
		return named
	})
}

// DescriptorKey returns a descriptor as "k=v|k=v", with keys and values escaped: no two descriptors have the same key.
func DescriptorKey(descriptor []EnvoyEntry) (key []byte) {
	for i, pair := range descriptor {
		if i > 0 {
			key = append(key, '|')
		}
		key = append(AppendEscaped(key, pair.Key), '=')
		key = AppendEscaped(key, pair.Value)
	}
	return key
}
