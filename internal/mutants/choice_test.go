package mutants

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	hashFlag  = flag.String("hash", "", "judge what -since says, and some more that this text draws")
	sinceFlag = flag.String("since", "", "with -hash: judge the mutants in what has changed since this commit")
	mostFlag  = flag.Int("most", 80, "with -hash: how many of those are judged at most")
	drawnFlag = flag.Int("drawn", 20, "with -hash: how many more are drawn")
)

// choose returns the mutants that the flags name, and says why those.
func choose(everyone []*mutant) (chosen []*mutant, why string, err error) {
	if *hashFlag == "" {
		pattern, err := regexp.Compile(*judgeFlag)
		if err != nil {
			return nil, "", err
		}
		others := func(m *mutant) bool { return !pattern.MatchString(m.path()) }
		return slices.DeleteFunc(slices.Clone(everyone), others), fmt.Sprintf("those that match %q", *judgeFlag), nil
	}
	order := shuffled(slices.DeleteFunc(slices.Clone(everyone), func(m *mutant) bool { return m.seenBy.luck }), *hashFlag)
	c, known := changesSince(*sinceFlag)
	if !known {
		packages := make(map[string]bool)
		for _, m := range order[:min(*drawnFlag, len(order))] {
			packages[m.seenBy.pkg] = true
		}
		near, _ := split(order, func(m *mutant) bool { return packages[m.seenBy.pkg] })
		chosen = near[:min(*mostFlag, len(near))]
		return chosen, fmt.Sprintf("they are drawn, since the commit %q is not known here", *sinceFlag), nil
	}
	near, others := split(order, c.concern)
	left := max(0, len(near)-*mostFlag)
	drawn := others[:min(*drawnFlag, len(others))]
	return slices.Concat(near[:len(near)-left], drawn), fmt.Sprintf("%d in what has changed since %s, and %d drawn from the others; "+
		"to the full run are left %d more in what has changed, and the %d that need luck",
		len(near)-left, *sinceFlag, len(drawn), left, len(everyone)-len(order)), nil
}

// shuffled is an order that a text determines.
func shuffled(all []*mutant, hash string) []*mutant {
	key := func(m *mutant) []byte {
		sum := sha256.Sum256([]byte(hash + " " + m.name))
		return sum[:]
	}
	slices.SortFunc(all, func(a, b *mutant) int { return bytes.Compare(key(a), key(b)) })
	return all
}

func split(all []*mutant, is func(*mutant) bool) (those, others []*mutant) {
	for _, m := range all {
		if is(m) {
			those = append(those, m)
		} else {
			others = append(others, m)
		}
	}
	return those, others
}

// changes are what differs from a commit, committed or not.
type changes struct {
	files  map[string]bool // below the module's root
	dirs   map[string]bool // with their testdata
	tables string          // what was added to the tables
}

// changesSince asks Git. It does not know a commit that is not in its history.
func changesSince(commit string) (c changes, known bool) {
	c = changes{files: make(map[string]bool), dirs: make(map[string]bool)}
	differing, err := git("diff", "--name-only", "--relative", cmp.Or(commit, "none"), "--")
	if err != nil {
		return c, false
	}
	added, err := git("ls-files", "--others", "--exclude-standard")
	if err != nil {
		return c, false
	}
	for file := range strings.Lines(differing + added) {
		file = strings.TrimSpace(file)
		dir, _, _ := strings.Cut(path.Dir(file), "/testdata")
		c.files[file], c.dirs[dir] = true, true
	}
	c.tables, err = git("diff", "-U0", commit, "--", "internal/mutants")
	return c, err == nil
}

func git(arguments ...string) (string, error) {
	command := exec.Command("git", arguments...)
	command.Dir = root
	output, err := command.Output()
	return string(output), err
}

// concern reports whether the mutant's file has changed, or the package that judges it, or its line in the tables.
func (c changes) concern(m *mutant) bool {
	inTables := regexp.MustCompile(`(?m)^\+\s*"` + m.name + `":`)
	return c.files[m.source.name] || c.dirs[m.seenBy.pkg] || inTables.MatchString(c.tables)
}
