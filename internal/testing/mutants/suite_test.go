package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// suite is the tests that must detect a mutant.
type suite struct {
	pkg   string // below the module's root
	tests string // their names, joined by |
	flags string
	// A run may miss the mutant: the tests draw what they do, or depend on the order of goroutines.
	luck bool
}

// tests are some tests of a package, with their flags if they have any.
func tests(pkg, names string, flags ...string) suite {
	return suite{pkg: pkg, tests: names, flags: strings.Join(flags, " ")}
}

// lucky marks tests with runs that may miss the mutant: they draw what they do, or depend on the order of goroutines.
func lucky(s suite) suite {
	s.luck = true
	return s
}

func (s suite) String() string {
	return strings.TrimSpace("-run '^(" + s.tests + ")$' ./" + s.pkg + " " + s.flags)
}

// run runs the short form of the suite with a mutant switched on, "" for none, and reports whether it failed.
func (s suite) run(binary, mutant string) (output string, failed bool) {
	within := "3m" // a mutant may have its tests wait for what never comes
	if mutant == "" {
		within = "30m" // but a slow machine is no failure
	}
	arguments := []string{"-test.run=^(" + s.tests + ")$", "-test.failfast", "-test.short", "-test.timeout=" + within}
	run := exec.Command(binary, append(arguments, strings.Fields(s.flags)...)...)
	run.Dir = filepath.Join(root, s.pkg)
	run.Env = append(os.Environ(), mutantVariable+"="+mutant)
	text, err := run.CombinedOutput()
	return string(text), err != nil
}
