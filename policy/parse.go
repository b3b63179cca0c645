package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// fileBytesMax bounds the size of a policies file.
const fileBytesMax = 1 << 20

// Parse reads the text of a policies file (such as policy/dev.yaml). fileName is used only in errors. The error is a
// *ParseError with every problem found.
func Parse(fileName string, data []byte) (*Set, error) {
	root, problem := load(data)
	if problem != nil {
		return nil, &ParseError{File: fileName, Problems: []Problem{*problem}}
	}
	var f file
	d := newDecoder()
	fileKind.readInto(d, d.top(root), &f)
	for _, p := range f.Policies {
		d.report(p.problems())
	}
	d.report(parentProblems(f.Policies))
	var set *Set
	if len(d.problems) == 0 { // rules are checked against policies that can be resolved
		set = NewSet(f.Policies).with(f.Rules)
		d.report(set.rules.problems(set))
	}
	nameLimits(d.problems, f.Policies)
	if err := d.error(fileName); err != nil {
		return nil, err
	}
	return set, nil
}

// nameLimits puts the names of limits into the paths of problems, in place of their numbers, which readers would have
// to count.
func nameLimits(problems []Problem, policies []*Policy) {
	names := map[string]string{}
	for _, p := range policies {
		for i, l := range p.Limits {
			if NameProblem(l.Name) == "" {
				names[fmt.Sprintf("%s.limits[%d]", shown(p.Name), i)] = fmt.Sprintf("%s.limits[%s]",
					shown(p.Name), l.Name)
			}
		}
	}
	for i := range problems {
		list := strings.Index(problems[i].Path, ".limits[")
		if list < 0 {
			continue
		}
		end := list + strings.IndexByte(problems[i].Path[list:], ']') + 1
		if name, ok := names[problems[i].Path[:end]]; ok {
			problems[i].Path = name + problems[i].Path[end:]
		}
	}
}

// load parses text that must be a single document, and returns the root node.
func load(data []byte) (*yaml.Node, *Problem) {
	if len(data) > fileBytesMax {
		return nil, &Problem{Message: fmt.Sprintf("the file has %d bytes: at most %d are read",
			len(data), fileBytesMax)}
	}
	for at, r := range string(data) {
		if r == utf8.RuneError && !bytes.HasPrefix(data[at:], []byte("\uFFFD")) {
			line, column := 1+bytes.Count(data[:at], []byte("\n")), at-bytes.LastIndexByte(data[:at], '\n')
			return nil, &Problem{Line: line, Column: column, Message: "is not valid UTF-8"}
		}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, syntaxProblem(err, data)
	}
	var document, second yaml.Node
	if err := loader.Load(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Problem{Message: `the file is empty: it must have the field "policies"`}
		}
		return nil, syntaxProblem(err, data)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, &Problem{Line: second.Line, Column: second.Column,
			Message: "a second YAML document begins: a file has one"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(err, data)
	}
	return document.Content[0], nil
}

// syntaxProblem explains the most common mistake, for which the YAML library has several texts: an editor that indents
// with tabs.
func syntaxProblem(err error, data []byte) *Problem {
	var e *yaml.LoadError
	if errors.As(err, &e) {
		if lines := bytes.Split(data, []byte("\n")); e.Mark.Line > 0 && e.Mark.Line <= len(lines) {
			line := lines[e.Mark.Line-1]
			if at := bytes.IndexByte(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], '\t'); at >= 0 {
				return &Problem{Line: e.Mark.Line, Column: at + 1, Message: "is not YAML: a tab; indent with spaces"}
			}
		}
		return &Problem{Line: e.Mark.Line, Column: e.Mark.Column, Message: "is not YAML: " + e.Message}
	}
	return &Problem{Message: "is not YAML: " + err.Error()}
}
