package mutants

import (
	"os/exec"
	"path"
	"regexp"
	"strings"
)

// changes are what differs from a commit, committed or not.
type changes struct {
	files  map[string]bool // below the module's root
	dirs   map[string]bool // of those files, or of the testdata that they are in
	tables string          // a diff of the tables
}

// changesSince asks Git. It does not know a commit that is not in its history.
func changesSince(commit string) (c changes, known bool) {
	if commit == "" {
		return c, false
	}
	changed, err := git("diff", "--name-only", "--no-renames", commit, "--")
	if err != nil {
		return c, false
	}
	added, err := git("ls-files", "--others", "--exclude-standard")
	if err != nil {
		return c, false
	}
	c = changes{files: make(map[string]bool), dirs: make(map[string]bool)}
	for file := range strings.Lines(changed + added) {
		file = strings.TrimSpace(file)
		dir, _, _ := strings.Cut(path.Dir(file), "/testdata")
		c.files[file], c.dirs[dir] = true, true
	}
	c.tables, err = git("diff", "-U0", commit, "--", "internal/testing/mutants")
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
	inTables := regexp.MustCompile(`(?m)^\+.*"` + m.name + `":`)
	return c.files[m.source.name] || c.dirs[m.seenBy.pkg] || inTables.MatchString(c.tables)
}
