package policy

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// Named is a policy as a node of a file, below its name.
type Named struct {
	Name string
	Node *yaml.Node
}

// Node returns the policy as a node of a file, including the numbers that a file may leave out. It may be called
// concurrently.
func (p *Policy) Node() *yaml.Node { return policyKind.node(reflect.ValueOf(p).Elem(), true) }

// FromNodes makes a Set of policies that did not come as text, with the checks of Parse. The error is a *ParseError of
// the file "policies"; its problems have paths but no lines.
func FromNodes(nodes []Named) (*Set, error) {
	d := newDecoder()
	policies := make([]*Policy, len(nodes))
	for i, n := range nodes {
		path := shown(n.Name)
		if NameProblem(n.Name) != "" {
			path = fmt.Sprintf("[%d]", i)
		}
		policies[i] = d.policy(path, n)
	}
	return d.build(policies)
}

// FromNode reads one policy without checking it: the caller has done so. It is in no Set, so it cannot be resolved. The
// error is a *ParseError.
func FromNode(n Named) (*Policy, error) {
	d := newDecoder()
	p := d.policy(shown(n.Name), n)
	return p, d.error("policies")
}

func (d *decoder) policy(path string, n Named) *Policy {
	p := &Policy{Name: n.Name}
	policyKind.readInto(d, value{node: n.Node, name: n.Name, path: path}, p)
	return p
}

// LimitsFromNodes reads limits that belong to no policy. loadZone returns the time zone with a name, or a
// *limit.FieldError. The paths of the problems have the form "limits[0].quota". It may be called concurrently.
func LimitsFromNodes(nodes []*yaml.Node, loadZone func(name string) (*limit.Zone, error)) ([]Limit, []Problem) {
	var p Policy
	d := newDecoder()
	d.loadZone = loadZone
	list := &yaml.Node{Kind: yaml.SequenceNode, Content: nodes}
	limitsKind.readInto(d, value{node: list, path: "limits"}, &p.Limits)
	if len(d.problems) == 0 {
		c := checker{policy: &p}
		c.limits()
		c.inlineThresholds()
		d.report(c.found)
	}
	return p.Limits, d.problems
}
