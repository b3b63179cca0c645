package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Every recipe does what its README says. The commands of its blocks "sh" are typed into one shell, in their order, from
// the root of the project. A block "json" or "text" that follows says what they print:
//
//	json   one JSON value for each answer. An answer may have more fields, and its lists of objects more of them;
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			follow(t, readme, recipe(t, name))
		})
	}
}

// recipe starts a node with the policies of a recipe.
func recipe(t *testing.T, name string) client {
	t.Helper()
	policies := filepath.Join(name, "policies.yaml")
	if _, err := os.Stat(policies); errors.Is(err, os.ErrNotExist) {
		policies = name + ".yaml"
	}
	c, err := start(1, t.TempDir(), policies)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return client{t, c.Addr(0)}
}

// step is a block of commands and what they print.
type step struct {
	commands string
	format   string // "json", "text" or "": not said
	prints   string
	line     int
}

// separator comes between the outputs of two steps. No answer has it in it: JSON escapes it.
const separator = "\x1e"

// follow types the commands of a README into a shell.
func follow(t *testing.T, readme string, c client) {
	t.Helper()
	steps := stepsOf(t, readme)
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, s := range steps {
		fmt.Fprintf(&script, "%s\nprintf '\\036'\n", strings.ReplaceAll(s.commands, "127.0.0.1:7400", c.address))
	}
	shell := exec.Command("sh")
	shell.Dir = ".." // the README's commands are typed at the root
	shell.Env = append(os.Environ(), "STINT_ADDR="+c.address)
	shell.Stdin = strings.NewReader(script.String())
	var stderr bytes.Buffer
	shell.Stderr = &stderr
	stdout, err := shell.Output()
	outputs := strings.Split(string(stdout), separator)
	for i, s := range steps {
		if i >= len(outputs)-1 {
			t.Errorf("%s:%d: the commands did not end well: %v\n%s%s", readme, s.line, err, outputs[len(outputs)-1], &stderr)
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

// stepsOf reads the blocks of a README.
func stepsOf(t *testing.T, readme string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	format, open := "", false
	for i, line := range strings.Split(string(text), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !open:
			format, open = info, true
			block.Reset()
		case fence:
			open = false
			switch format {
			case "sh":
				steps = append(steps, step{commands: block.String(), line: i + 1})
			case "json", "text":
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

func (s step) compare(output string) error {
	switch s.format {
	case "text":
		if output != s.prints {
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

// values reads one JSON value after the other.
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

// within says what of want is not in got.
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

// withinList finds the objects of want in got, in their order. Lists of anything else must be equal.
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

// The comparison sees what a README could get wrong.
func TestWithin(t *testing.T) {
	const got = `{"allowed":true,"by":["a","b"],"none":[],"limits":[{"name":"x","used":"1"},{"name":"y","used":"2"}],"at":"10:00"}`
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
