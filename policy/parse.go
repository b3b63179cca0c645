package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// fileBytesMax bounds the size of a policies file.
const fileBytesMax = 1 << 20

// Parse reads a policies file (such as policy/dev.yaml) that the caller has loaded. fileName is used only in errors. The
// error is a *ParseError with every problem found.
func Parse(fileName string, data []byte) (*Set, error) {
	root, problem := load(data)
	if problem != nil {
		return nil, &ParseError{File: fileName, Problems: []Problem{*problem}}
	}
	d := newDecoder()
	policies, rules := d.file(root)
	for _, p := range policies {
		d.report(p.problems())
	}
	d.report(parentProblems(policies))
	var set *Set
	if len(d.problems) == 0 { // rules are checked beside policies that can be resolved
		set = NewSet(policies).with(rules)
		d.report(set.rules.problems(set))
	}
	if len(d.problems) > 0 {
		sortProblems(d.problems)
		return nil, &ParseError{File: fileName, Problems: d.problems}
	}
	return set, nil
}

// load parses text that must be a single document, and returns the root node.
func load(data []byte) (*yaml.Node, *Problem) {
	if len(data) > fileBytesMax {
		return nil, &Problem{Message: fmt.Sprintf("the file has %d bytes: at most %d are read", len(data), fileBytesMax)}
	}
	if at := invalidUTF8(data); at >= 0 {
		line, column := 1+bytes.Count(data[:at], []byte("\n")), at-bytes.LastIndexByte(data[:at], '\n')
		return nil, &Problem{Line: line, Column: column, Message: "is not valid UTF-8"}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, syntaxProblem(err)
	}
	var document, second yaml.Node
	if err := loader.Load(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Problem{Message: `the file is empty: it must have the field "policies"`}
		}
		return nil, syntaxProblem(err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, &Problem{Line: second.Line, Column: second.Column,
			Message: "a second YAML document begins: a file has one"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(err)
	}
	return document.Content[0], nil
}

func invalidUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

func syntaxProblem(err error) *Problem {
	var e *yaml.LoadError
	if errors.As(err, &e) {
		return &Problem{Line: e.Mark.Line, Column: e.Mark.Column, Message: "is not YAML: " + e.Message}
	}
	return &Problem{Message: "is not YAML: " + err.Error()}
}
