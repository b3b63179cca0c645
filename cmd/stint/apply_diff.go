package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// printChanges writes policies as the lines of a file, with + before added lines, - before removed lines, and ~ before
// the name of a policy that stays.
func printChanges(w io.Writer, m *stintv1.ApplyResponse) error {
	for _, change := range m.Changes {
		before, err := policyLines(change.Before)
		if err != nil {
			return err
		}
		after, err := policyLines(change.After)
		if err != nil {
			return err
		}
		for _, line := range changedLines(before, after) {
			fmt.Fprintln(w, line)
		}
	}
	for _, change := range m.RuleChanges {
		for _, line := range changedLines(linesOf(change.Before), linesOf(change.After)) {
			fmt.Fprintln(w, line)
		}
	}
	if len(m.Changes)+len(m.RuleChanges) > 0 {
		fmt.Fprintln(w)
	}
	return nil
}

// policyLines returns a policy as the lines of a file, or nil if there is no policy.
func policyLines(m *stintv1.Policy) ([]string, error) {
	if m == nil {
		return nil, nil
	}
	p, err := api.PolicyFrom(m)
	if err != nil {
		return nil, fmt.Errorf("policy %s of the server: %w", m.Name, err)
	}
	return linesOf(string(policy.FormatPolicy(p))), nil
}

// linesOf splits text into its lines; it returns nil for "".
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// changedLines marks the lines of two versions of a policy; one of them may be absent.
func changedLines(before, after []string) (lines []string) {
	if len(before) > 0 && len(after) > 0 {
		lines = append(lines, "~ "+after[0]) // the name, in both
		before, after = before[1:], after[1:]
	}
	common := commonLines(before, after)
	for i, j := 0, 0; i < len(before) || j < len(after); {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			lines = append(lines, "  "+before[i])
			i, j = i+1, j+1
		case j == len(after) || i < len(before) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "- "+before[i])
			i++
		default:
			lines = append(lines, "+ "+after[j])
			j++
		}
	}
	return lines
}

// commonLines returns the length in lines of the longest common subsequence of before[i:] and after[j:]. A policy has
// at most a hundred lines, so the table is small.
func commonLines(before, after []string) [][]int {
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	return common
}
