package mutants

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// root is the module's directory.
var root, _ = filepath.Abs("../../..")

// source is a Go file as it is without its marks.
type source struct {
	name  string // below root
	text  string
	lines []string // of text, each with its end
	marks []mark
	set   *token.FileSet
	ast   *ast.File
}

var (
	aMark    = regexp.MustCompile(`//mutant:([a-z0-9]+(?:-[a-z0-9]+)*)(?: ([2-9]))?`)
	aComment = regexp.MustCompile(`^\s*//(?:[^m]|\n)`) // it may speak of marks
	allMark  = regexp.MustCompile(`^(` + aMark.String() + `\s*)+$`)
)

// readSources reads the files of the module that have marks.
func readSources() (all []*source, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (hidden || isModule(path)):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "//mutant:") {
			return err
		}
		s, err := parseSource(strings.TrimPrefix(path, root+"/"), string(text))
		all = append(all, s)
		return err
	})
	return all, err
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// parseSource takes the marks out of a file. One that stands behind code covers that line, one alone on its line the
// next that has code.
func parseSource(name, text string) (*source, error) {
	s := &source{name: name, set: token.NewFileSet()}
	var above []mark
	for line := range strings.Lines(text) {
		code, marks := line, ""
		if at := strings.Index(line, "//mutant:"); at >= 0 && !aComment.MatchString(line) {
			code, marks = strings.TrimRight(line[:at], " \t"), line[at:]
			if !allMark.MatchString(marks) {
				return nil, fmt.Errorf("%s: this is no mark: %s", name, strings.TrimSpace(marks))
			}
		}
		for _, found := range aMark.FindAllStringSubmatch(marks, -1) {
			count, _ := strconv.Atoi(found[2])
			above = append(above, mark{name: found[1], count: max(1, count)})
		}
		if code == "" {
			continue
		}
		if strings.TrimSpace(code) != "" {
			for _, m := range above {
				m.from = len(s.lines)
				s.marks = append(s.marks, m)
			}
			above = nil
		}
		s.lines = append(s.lines, strings.TrimSuffix(code, "\n")+"\n")
	}
	if len(above) > 0 {
		return nil, fmt.Errorf("%s: nothing follows the mark of %s", name, above[0].name)
	}
	s.text = strings.Join(s.lines, "")
	var err error
	s.ast, err = parser.ParseFile(s.set, name, s.text, parser.SkipObjectResolution)
	return s, err
}

// covered is what a mark covers.
func (s *source) covered(m mark) string { return strings.Join(s.lines[m.from:m.from+m.count], "") }

// with is the text with other lines in place of those of a mark.
func (s *source) with(m mark, lines string) string {
	return strings.Join(s.lines[:m.from], "") + lines + strings.Join(s.lines[m.from+m.count:], "")
}

// condition returns the offsets of the one on the first line of a mark: of an if, a for or a case, or the result of a
// return.
func (s *source) condition(m mark) (from, to int, err error) {
	var found []ast.Expr
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if n == nil || found != nil || s.set.Position(n.Pos()).Line-1 != m.from {
			return found == nil
		}
		switch n := n.(type) {
		case *ast.IfStmt:
			found = []ast.Expr{n.Cond}
		case *ast.ForStmt:
			found = []ast.Expr{n.Cond}
		case *ast.CaseClause:
			found = n.List
		case *ast.ReturnStmt:
			found = n.Results
		}
		return true
	})
	if len(found) != 1 || found[0] == nil {
		return 0, 0, errors.New("the line has no condition, or more than one")
	}
	return s.set.Position(found[0].Pos()).Offset, s.set.Position(found[0].End()).Offset, nil
}
