package mutants

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// judgeFlag is not for `go test ./...`: each package needs a build of its tests with the mutants in them (make
// mutants).
var judgeFlag = flag.String("judge", "", "judge the mutants whose name, or the package that judges them, "+
	"is of this pattern")

// mutants are those of the source, read once.
var mutants = sync.OnceValues(everyMutant)

func TestMain(m *testing.M) { os.Exit(withScratch(m)) }

func withScratch(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "stint-mutants-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// TestEachMarkIsAMutant holds that marks and tables have the same names, and that each edit makes other Go of what its
// mark covers.
func TestEachMarkIsAMutant(t *testing.T) {
	for _, m := range all(t) {
		if err := m.fits(); err != nil {
			t.Error(err)
		}
	}
}

// TestMutants judges what the flags choose. A mutant must fail the tests that the tables name, which pass without it.
func TestMutants(t *testing.T) {
	if *judgeFlag == "" && *hashFlag == "" {
		t.Skip("neither -judge nor -hash says which mutants (make mutants)")
	}
	everyone := all(t)
	c, err := chosen(everyone)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%d of %d mutants are judged: %s\n", len(c.mutants), len(everyone), c.why)
	judge(t, c.mutants, everyone)
}

// A choice is the same for the same text, and another for another one; it has what a change concerns, no more than is
// asked for, and nothing that needs luck.
func TestAChoiceIsDrawn(t *testing.T) {
	everyone := all(t)
	defer func(hash string) { *hashFlag = hash }(*hashFlag)
	ofShard := func(m *mutant) bool { return m.seenBy.pkg == "shard" }
	ofAuth := func(m *mutant) bool { return m.seenBy.pkg == "internal/edge/auth" }
	var names []string
	for _, *hashFlag = range []string{"a", "a", "b"} {
		few, many := draw(everyone, ofAuth), draw(everyone, ofShard)
		auth, _ := split(few.mutants, ofAuth)
		shard, others := split(many.mutants, ofShard)
		_, without := split(everyone, ofAuth)
		if len(auth) != len(everyone)-len(without) || len(shard) != *mostFlag || len(others) != *drawnFlag {
			t.Errorf("%s\n%s", few.why, many.why)
		}
		text := ""
		for _, m := range slices.Concat(few.mutants, many.mutants, drawPackages(everyone).mutants) {
			text += m.name + " "
			if m.seenBy.luck {
				t.Errorf("%s needs luck", m.name)
			}
		}
		names = append(names, text)
	}
	if _, known := changesSince("no-such-commit"); known {
		t.Error("Git knows any commit")
	}
	if names[0] != names[1] || names[0] == names[2] {
		t.Errorf("drawn by a, a and b:\n%s", strings.Join(names, "\n"))
	}
}

// TestAMutantIsSeen judges the cheapest one, so that the method is tested wherever tests run.
func TestAMutantIsSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a package")
	}
	everyone := all(t)
	cheapest, _ := split(everyone, func(m *mutant) bool { return m.name == "leftmost-address-counts" })
	judge(t, cheapest, everyone)
}

func all(t *testing.T) []*mutant {
	all, err := mutants()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// judge checks that the suites of the chosen mutants pass without them, and that each mutant is detected.
func judge(t *testing.T, chosen, everyone []*mutant) {
	boards := make(map[string]*switchboard)
	var suites []suite
	for _, m := range chosen {
		if !slices.Contains(suites, m.seenBy) {
			suites = append(suites, m.seenBy)
		}
		if boards[m.seenBy.pkg] == nil {
			b, err := newSwitchboard(m.seenBy.pkg, chosen, everyone)
			if err != nil {
				t.Fatal(err)
			}
			boards[m.seenBy.pkg] = b
		}
	}
	for _, s := range suites {
		t.Run("none for "+s.String(), func(t *testing.T) {
			t.Parallel() // while the last mutants of a suite wait for what does not come, those of the next ones run
			if output, failed := s.run(boards[s.pkg].binary(t), ""); failed {
				t.Fatalf("it fails without any mutation:\n%s", output)
			}
		})
	}
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			judgeMutant(t, m, boards[m.seenBy.pkg])
		})
	}
}

// judgeMutant checks that a mutant is detected. A lucky suite may miss it twice; and if it does not end, it has
// detected nothing. Another suite that misses it should be called lucky.
func judgeMutant(t *testing.T, m *mutant, b *switchboard) {
	binary := b.binaryWith(t, m)
	for tries := 1; ; tries++ {
		output, failed := m.seenBy.run(binary, m.name)
		if failed && !(m.seenBy.luck && strings.Contains(output, "test timed out")) {
			t.Logf("at try %d: %s", tries, reason(output))
			if tries > 1 && !m.seenBy.luck {
				fmt.Printf("%s was seen at try %d only\n", m.name, tries)
			}
			return
		}
		if tries == 3 {
			t.Fatalf("%s lacks the guard, and %v does not see it. To judge it again: make mutants MUTANTS=%s\n%s",
				m.source.name, m.seenBy, m.name, output)
		}
	}
}

var verdict = regexp.MustCompile(
	`the world of seed .*(\n.*)?|panic: .*|no world met this.*|.* is counted .*|the caller of .*|.*_test.go:.*`)

// reason is the first line of a failure that says what was detected.
func reason(output string) string {
	if line := verdict.FindString(output); line != "" {
		return line
	}
	return output
}
