package mutants

import (
	"fmt"
	"strings"
)

// edit makes a guard's lines into those of the mutant, or says why it cannot.
type edit func(s *source, m mark) (lines string, err error)

// edits are those of mutants, by name.
type edits map[string]edit

// gone takes the lines out.
func gone(*source, mark) (string, error) { return "", nil }

// never has the condition of an if, for or case, or the result of a return, be false.
func never(s *source, m mark) (string, error) { return decided(s, m, "false && (") }

// always has it be true.
func always(s *source, m mark) (string, error) { return decided(s, m, "true || (") }

// decided leaves the condition behind an operator, so that what it uses is still used.
func decided(s *source, m mark, operator string) (string, error) {
	from, to, err := s.condition(m)
	if err != nil {
		return "", err
	}
	start, lines := len(strings.Join(s.lines[:m.from], "")), s.covered(m)
	if to > start+len(lines) {
		return "", fmt.Errorf("the condition has more lines than the mark")
	}
	return lines[:from-start] + operator + lines[from-start:to-start] + ")" + lines[to-start:], nil
}

// instead has other statements in place of the lines.
func instead(statements string) edit {
	return func(*source, mark) (string, error) { return statements + "\n", nil }
}

// before has statements before the lines.
func before(statements string) edit {
	return func(s *source, m mark) (string, error) {
		return statements + "\n" + s.covered(m), nil
	}
}

// swap replaces a part of the lines, which they have once.
func swap(old, new string) edit {
	return func(s *source, m mark) (string, error) {
		lines := s.covered(m)
		if n := strings.Count(lines, old); n != 1 {
			return "", fmt.Errorf("%q is there %d times, must be once, in:\n%s", old, n, lines)
		}
		return strings.Replace(lines, old, new, 1), nil
	}
}

// without takes a part of the lines out.
func without(part string) edit { return swap(part, "") }
