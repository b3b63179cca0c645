package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// Every recipe works as its README says. The commands of its blocks "sh" run in one shell, in order, from the root of
// the project. A block "json" or "text" that follows shows their output:
//
//	json   one JSON value for each answer. An answer may have more fields, and its lists of objects may have more elements;
//	       "..." stands for any text
//	text   exactly this
func TestRecipes(t *testing.T) {
	needLinux(t)
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the recipes are typed into a shell: %v", err)
		}
	}
	readmes, err := filepath.Glob("*/README.md")
	if err != nil || len(readmes) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	for _, readme := range readmes {
		name := filepath.Dir(readme)
		if _, err := os.Stat(filepath.Join(name, "package.json")); err == nil {
			continue // a program for Node: `make js` runs it
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := recipe(t, name)
			follow(t, readme, reader{"..", c.Addr(0), strings.NewReplacer("127.0.0.1:7400",
				c.Addr(0), "127.0.0.1:8080", c.Beside(8080))})
		})
	}
}

// recipe starts a node with the policies of a recipe.
func recipe(t *testing.T, name string) *testcluster.Cluster {
	t.Helper()
	policies := filepath.Join(name, "policies.yaml")
	if _, err := os.Stat(policies); errors.Is(err, os.ErrNotExist) {
		policies = name + ".yaml"
	}
	return start(t, testcluster.Options{Nodes: 1}, policies)
}

// step is a block of commands and their output.
type step struct {
	info     string // what stands behind the fence, as in "sh"
	commands string
	format   string // "json", "text" or "": not given
	prints   string
	loose    bool // prints is the end of the output, and instants and durations may differ
	line     int
}

// separator separates the outputs of two steps. It occurs in no answer: JSON escapes it.
const separator = "\x1e"

// reader is a reader of a page who types its commands.
type reader struct {
	dir      string            // where the commands run
	address  string            // of the node
	replaces *strings.Replacer // replaces parts of the page's commands
}

// follow runs the commands of a page in a shell.
func follow(t *testing.T, readme string, as reader) {
	t.Helper()
	steps := stepsOf(t, readme, "sh")
	var script strings.Builder
	// the program that a page started beside, if any
	script.WriteString("set -eu\ntrap 'kill ${!:-} 2> /dev/null || true' EXIT\n")
	for _, s := range steps {
		fmt.Fprintf(&script, "%s\nprintf '\\036'\n", as.replaces.Replace(s.commands))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a loop that waits for what does not come
	defer cancel()
	shell := exec.CommandContext(ctx, "sh")
	shell.WaitDelay = time.Second
	shell.Dir = as.dir
	// where Debian's Express finds its parts
	shell.Env = append(os.Environ(), "STINT="+binary(t), "STINT_ADDR="+as.address, "NODE_PATH=/usr/share/nodejs")
	shell.Stdin = strings.NewReader(script.String())
	var stderr bytes.Buffer
	shell.Stderr = &stderr
	stdout, err := shell.Output()
	outputs := strings.Split(string(stdout), separator)
	for i, s := range steps {
		if i >= len(outputs)-1 {
			t.Errorf("%s:%d: the commands did not end well: %v\n%s%s",
				readme, s.line, err, outputs[len(outputs)-1], &stderr)
			return
		}
		if problem := s.compare(outputs[i]); problem != nil {
			t.Errorf("%s:%d: %v\nit printed\n%s", readme, s.line, problem, outputs[i])
		}
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", readme, err, &stderr)
	}
}

// stepsOf reads the blocks of a page whose info is one of kinds, and what they print.
func stepsOf(t *testing.T, readme string, kinds ...string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	format, open, typed := "", false, false
	for i, line := range strings.Split(string(text), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !open:
			format, open = info, true
			block.Reset()
		case fence:
			open = false
			switch kind, _, _ := strings.Cut(format, " "); kind {
			case "sh":
				if typed = slices.Contains(kinds, format); typed {
					steps = append(steps, step{info: format, commands: block.String(), line: i + 1})
				}
			case "json", "text":
				if !typed {
					continue
				}
				if len(steps) == 0 || steps[len(steps)-1].format != "" {
					t.Fatalf("%s:%d: no commands print this", readme, i+1)
				}
				s := &steps[len(steps)-1]
				s.format, s.prints = format, block.String()
			}
		case open:
			block.WriteString(line + "\n")
		}
	}
	if len(steps) == 0 {
		t.Fatalf("%s has no block of commands", readme)
	}
	return steps
}

var (
	instant  = regexp.MustCompile(`\b(\d{4}-\d\d-\d\dT)?\d\d:\d\d:[0-9.]+Z`)
	duration = regexp.MustCompile(`\b(\d+(\.\d+)?(d|h|m|s|ms|µs))+\b`)
)

// alike is a text without what differs from one time to the next.
func alike(text string) string {
	text = duration.ReplaceAllString(instant.ReplaceAllString(text, "T"), "D")
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func (s step) compare(output string) error {
	switch s.format {
	case "text":
		if output != s.prints && !(s.loose && strings.HasSuffix(alike(output), alike(s.prints))) {
			return fmt.Errorf("it should print\n%s", s.prints)
		}
	case "json":
		want, err := values(s.prints)
		if err != nil {
			return fmt.Errorf("the README's JSON: %w", err)
		}
		got, err := values(output)
		if err != nil {
			return err
		}
		if len(got) != len(want) {
			return fmt.Errorf("%d answers, want %d", len(got), len(want))
		}
		for i := range want {
			if err := within(want[i], got[i]); err != nil {
				return fmt.Errorf("answer %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// values reads a sequence of JSON values.
func values(text string) (all []any, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var v any
		if err := decoder.Decode(&v); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
}

// within returns an error that says what of want is missing in got.
func within(want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%v where an object should be", got)
		}
		for name, v := range want {
			field, ok := object[name]
			if !ok {
				return fmt.Errorf("%s is missing", name)
			}
			if err := within(v, field); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case []any:
		return withinList(want, got)
	}
	if text, ok := got.(string); want == got || want == "..." && ok && text != "" {
		return nil
	}
	return fmt.Errorf("%v, want %v", got, want)
}

// withinList finds the objects of want in got, in order. Lists of other values must be equal.
func withinList(want []any, got any) error {
	list, ok := got.([]any)
	if !ok {
		return fmt.Errorf("%v where a list should be", got)
	}
	if len(want) == 0 || !isObject(want[0]) {
		if !reflect.DeepEqual(want, list) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	}
	for i, w := range want {
		err := errors.New("the list is over")
		for err != nil && len(list) > 0 {
			err = within(w, list[0])
			list = list[1:]
		}
		if err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return nil
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// The comparison detects the errors that a README could contain.
func TestWithin(t *testing.T) {
	const got = `{"allowed":true,"by":["a","b"],"none":[],"limits":[{"name":"x","used":"1"},{"name":"y","used":"2"}],` +
		`"at":"10:00"}`
	for want, same := range map[string]bool{
		`{}`:                                     true,
		`{"allowed":true}`:                       true,
		`{"allowed":false}`:                      false,
		`{"wait":"1s"}`:                          false,
		`{"at":"..."}`:                           true,
		`{"allowed":"..."}`:                      false,
		`{"by":["a","b"]}`:                       true,
		`{"by":["a"]}`:                           false,
		`{"by":[]}`:                              false,
		`{"none":[]}`:                            true,
		`{"limits":[{"name":"y"}]}`:              true,
		`{"limits":[{"name":"x"},{"used":"2"}]}`: true,
		`{"limits":[{"name":"y"},{"name":"x"}]}`: false,
		`{"limits":[{"name":"y","used":"1"}]}`:   false,
	} {
		if err := (step{format: "json", prints: want}).compare(got); (err == nil) != same {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := (step{format: "json", prints: `{}`}).compare(""); err == nil {
		t.Error("no answer is taken for one")
	}
	if err := (step{format: "text", prints: "5\n"}).compare("6\n"); err == nil {
		t.Error("another text is taken for the same")
	}
}

// The loose comparison sees another number.
func TestAlike(t *testing.T) {
	const page = "login/account-15m  5  5  0   in 14m3s  [####]\n    until 2026-11-21T16:14:20.08Z"
	other := step{format: "text", loose: true, prints: "login/account-15m  5     5      0          in 15m    [####]\n" +
		"    until 2026-12-01T00:00:00Z"}
	if err := other.compare(page); err != nil {
		t.Errorf("another time is another text: %v", err)
	}
	other.prints = strings.Replace(other.prints, "  5 ", "  4 ", 1)
	if other.compare(page) == nil {
		t.Error("4 is taken for 5")
	}
}
