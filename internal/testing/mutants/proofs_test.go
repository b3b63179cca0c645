package mutants

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheProofsNameWhatFails: a row of the page names guards, and tests that fail without them, as the tables know it.
func TestTheProofsNameWhatFails(t *testing.T) {
	const page = "docs/proofs.md"
	text, err := os.ReadFile("../../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	seenBy := make(map[string]*regexp.Regexp) // what the names of tests match
	for _, m := range all(t) {
		seenBy[m.name] = regexp.MustCompile("^(" + m.seenBy.tests + ")$")
	}
	code, guards := regexp.MustCompile("`[^`]+`"), 0
	words := func(cell string) (words []string) {
		for _, word := range code.FindAllString(cell, -1) {
			words = append(words, strings.Trim(word, "`"))
		}
		return words
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 { // those of other tables
			continue
		}
		names, seen := words(cells[4]), make(map[string]bool)
		for _, guard := range words(cells[3]) {
			guards++
			if seenBy[guard] == nil || !slices.ContainsFunc(names, seenBy[guard].MatchString) {
				t.Errorf("%s: none of %v is named for the mutant %s", page, names, guard)
				continue
			}
			for _, name := range names {
				seen[name] = seen[name] || seenBy[guard].MatchString(name)
			}
		}
		for _, name := range names {
			if !seen[name] {
				t.Errorf("%s: %s is named for no mutant of its row", page, name)
			}
		}
	}
	if guards < 70 {
		t.Errorf("%s names %d guards only", page, guards)
	}
}
