package main

import (
	"fmt"
	"io"
	"os"

	"github.com/stint-io/stint/policy"
)

// readPolicies loads a file and prints warnings about content that is valid but probably not intended.
func readPolicies(s streams, file string) (*policy.Set, error) {
	input, err := openInput(file, s.in)
	if err != nil {
		return nil, usagef("policies file: %w", err)
	}
	defer input.Close()
	text, err := io.ReadAll(input)
	if err != nil {
		return nil, usagef("policies file: %w", err)
	}
	set, err := policy.Parse(file, text)
	if err != nil {
		return nil, err
	}
	if path, problem := set.Mistake(); problem != "" {
		return nil, fmt.Errorf("%s: %s: %s", file, path, problem)
	}
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		for _, warning := range p.Warnings() {
			fmt.Fprintf(s.err, "stint: warning: %s\n", warning)
		}
	}
	return set, nil
}

// readPolicySet loads a file for a replay. It does not warn, and accepts what only an apply would refuse
// (policy.Set.Mistake): the policies in force may be such.
func readPolicySet(file string) (*policy.Set, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("policies file: %w", err)
	}
	return policy.Parse(file, text)
}
