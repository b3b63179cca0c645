package policy

import (
	"fmt"
	"strings"
)

// parentProblems reports every invalid parent: one that does not exist, is the policy itself or one of its descendants,
// or has too many policies above it.
func parentProblems(policies []*Policy) (problems []Problem) {
	parents := make(map[string]string, len(policies))
	for _, p := range policies {
		parents[p.Name] = p.Parent
		if p.Lease != nil {
			problems = append(problems, childProblems(p.Name, policies)...)
		}
	}
	for _, p := range policies {
		if problem := parentProblem(p, parents); problem != "" {
			problems = append(problems, Problem{Path: shown(p.Name) + ".parent", Message: problem})
		}
	}
	return problems
}

// generationsMax bounds how many policies are decided together through their parents. A check has room for that many
// entries, and the work here stays within the size of the file.
const generationsMax = 8

// parentProblem follows the parents of one policy up to a policy without a parent. It reports a cycle for each policy
// on the cycle, but not for a policy that only leads to it.
func parentProblem(p *Policy, parents map[string]string) string {
	if _, known := parents[p.Parent]; p.Parent != "" && !known {
		return "there is no policy " + shown(p.Parent)
	}
	way := []string{shown(p.Name)}
	for name := p.Parent; name != ""; name = parents[name] {
		if way = append(way, shown(name)); name == p.Name {
			return "goes in a circle: " + strings.Join(way, " -> ")
		}
		if len(way) > generationsMax {
			return fmt.Sprintf("leads through more than %d policies: %s", generationsMax, strings.Join(way, " -> "))
		}
	}
	return ""
}
