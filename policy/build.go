package policy

import "fmt"

// Build makes a Set of policies that were not read from a file. It applies the checks of Parse, so Format can write an
// accepted Set and Parse can read it back. The error is a *ParseError of the file "policies"; its problems have paths
// but no lines. Build prepares the policies for Resolve, as NewSet does. They must not be changed afterwards.
func Build(policies []*Policy) (*Set, error) {
	d := newDecoder()
	for _, p := range policies {
		d.policy(shown(p.Name), Named{p.Name, policyKind.nodeOf(p)})
	}
	return d.build(policies)
}

// build makes a Set of decoded policies.
func (d *decoder) build(policies []*Policy) (*Set, error) {
	seen := map[string]bool{}
	for _, p := range policies {
		if seen[p.Name] {
			d.fail(shown(p.Name), "is there twice")
		}
		if problem := NameProblem(p.Name); problem != "" {
			d.add(place{}, shown(p.Name), problem)
		}
		seen[p.Name] = true
		d.report(p.problems())
	}
	d.report(parentProblems(policies))
	if err := d.error("policies"); err != nil {
		return nil, err
	}
	set := NewSet(policies)
	return set, tooLarge(set)
}

// tooLarge returns the error of a set that is larger than a file may be.
func tooLarge(set *Set) error {
	if size := len(Format(set)); size > fileBytesMax {
		return &ParseError{File: "policies", Problems: []Problem{{Message: fmt.Sprintf(
			"they have %d bytes as a file: at most %d are read", size, fileBytesMax)}}}
	}
	return nil
}
