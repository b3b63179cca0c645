package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A build and a link for each mutant would take most of the time that judging them takes. So a test binary holds all
// mutants that change only bodies of functions: each changed function stands beside the original one, which calls it
// when its mutant is switched on (Untch, Offutt and Harrold, Mutation Analysis Using Mutant Schemata, ISSTA 1993). The
// others get their own build.

// mutantVariable is the environment variable that switches a mutant on, by its name.
const mutantVariable = "STINT_MUTANT"

// switchboard is the tests of a package in one binary with the mutants that they judge. A package has either all its
// mutants or, if none is judged, none: so that the build cache has it from an earlier run, or from any other test.
type switchboard struct {
	has   map[string]bool // the mutants that are in it
	build func() (binary string, err error)
}

// newSwitchboard puts the mutants of all packages into the tests of pkg in which one of those to judge is.
func newSwitchboard(pkg string, judged, all []*mutant) (*switchboard, error) {
	b := &switchboard{has: make(map[string]bool)}
	dirs, files := make(map[string]bool), make(map[*source]bool)
	for _, m := range judged {
		dirs[m.dir()] = dirs[m.dir()] || m.seenBy.pkg == pkg
	}
	replace := make(map[string]string)
	for _, m := range all {
		if !dirs[m.dir()] || files[m.source] {
			continue
		}
		files[m.source] = true
		f, err := newSwitchedFile(m.source, all)
		if err != nil {
			return nil, err
		}
		for name, in := range f.has {
			b.has[name] = in
		}
		// The same for each file of a package.
		state := fmt.Sprintf("package %s\n\nimport \"os\"\n\n"+
			"func isMutant(name string) bool { return os.Getenv(%q) == name }\n", f.ast.Name.Name, mutantVariable)
		replace[f.name], replace[path.Join(m.dir(), "is_mutant.go")] = f.switched(), state
	}
	b.build = sync.OnceValues(func() (string, error) { return buildTests(pkg, replace) })
	return b, nil
}

// buildTests builds the tests of a package with other text in some files.
func buildTests(pkg string, texts map[string]string) (binary string, err error) {
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for file, text := range texts {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		replace[filepath.Join(root, file)] = path
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, overlay, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "tests")
	// Without what a debugger needs, which takes a third of the time of a link.
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay="+name, "-o", binary, "./"+pkg)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the tests of %s do not build: %w\n%s", pkg, err, output)
	}
	return binary, nil
}

// scratch is where the overlays and binaries of this run are.
var scratch string

// binary is the one of all mutants.
func (b *switchboard) binary(t *testing.T) string {
	t.Helper()
	binary, err := b.build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// binaryWith is one in which a mutant can be switched on, or one of its own if it is on no switchboard.
func (b *switchboard) binaryWith(t *testing.T, m *mutant) string {
	t.Helper()
	if b.has[m.name] {
		return b.binary(t)
	}
	text, err := m.text()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := buildTests(m.seenBy.pkg, map[string]string{m.source.name: text})
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
