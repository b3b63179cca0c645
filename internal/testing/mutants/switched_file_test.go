package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// switchedFile is a source file that gets switches.
type switchedFile struct {
	*source
	first map[*ast.FuncDecl]string // what the function does first: calls of its mutants
	added strings.Builder          // their functions and switches
	has   map[string]bool          // the mutants that are in it
}

// offsetEdit puts text in place of what stands between two offsets.
type offsetEdit struct {
	from, to int
	text     string
}

// newSwitchedFile puts all mutants of a file into it that a switch can choose.
func newSwitchedFile(s *source, all []*mutant) (*switchedFile, error) {
	f := &switchedFile{source: s, first: make(map[*ast.FuncDecl]string), has: make(map[string]bool)}
	for _, m := range all {
		if m.source != s {
			continue
		}
		text, err := m.text()
		if err != nil {
			return nil, err
		}
		f.has[m.name] = f.add(m.name, text)
	}
	return f, nil
}

// add adds a mutant. It reports false if more than the bodies of functions differs, which no switch can choose.
func (f *switchedFile) add(name, text string) bool {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, f.name, text, parser.SkipObjectResolution)
	if err != nil || len(parsed.Decls) != len(f.ast.Decls) {
		return false
	}
	type pair struct{ old, new *ast.FuncDecl }
	var changed []pair
	for i, decl := range f.ast.Decls {
		if textOf(f.set, f.text, decl) == textOf(set, text, parsed.Decls[i]) {
			continue
		}
		before, ok := decl.(*ast.FuncDecl)
		after, alsoOK := parsed.Decls[i].(*ast.FuncDecl)
		if !ok || !alsoOK || headOf(f.set, f.text, before) != headOf(set, text, after) {
			return false
		}
		changed = append(changed, pair{before, after})
	}
	suffix := "Mutant_" + strings.ReplaceAll(name, "-", "_")
	for _, p := range changed {
		at := set.Position(p.new.Name.End()).Offset
		begin, end := set.Position(p.new.Pos()).Offset, set.Position(p.new.End()).Offset
		fmt.Fprintf(&f.added, "\n%s%s%s\n", text[begin:at], suffix, text[at:end])
		f.first[p.old] += fmt.Sprintf(" if is%s { %s };", suffix, callOf(p.old, suffix))
	}
	fmt.Fprintf(&f.added, "\nvar is%s = isMutant(%q)\n", suffix, name)
	return len(changed) > 0
}

// switched is the file with its switches. Lines keep their numbers, but for those of marks.
func (f *switchedFile) switched() string {
	var edits []offsetEdit
	for decl, first := range f.first {
		body := f.set.Position(decl.Body.Lbrace).Offset + 1
		edits = append(edits, offsetEdit{body, body, first})
		edits = append(edits, f.named(decl.Recv, "theReceiver")...)
		edits = append(edits, f.named(decl.Type.Params, "theArgument")...)
	}
	slices.SortFunc(edits, func(a, b offsetEdit) int { return a.from - b.from })
	var text strings.Builder
	last, source := 0, f.text
	for _, e := range edits {
		text.WriteString(source[last:e.from] + e.text)
		last = e.to
	}
	return text.String() + source[last:] + f.added.String()
}

// named gives a name to each parameter that has none, so that it can be handed on.
func (f *switchedFile) named(list *ast.FieldList, invented string) (edits []offsetEdit) {
	if list == nil {
		return nil
	}
	all := names(list, invented)
	for _, field := range list.List {
		if len(field.Names) == 0 {
			at := f.set.Position(field.Type.Pos()).Offset
			edits = append(edits, offsetEdit{at, at, all[0] + " "})
			all = all[1:]
		}
		for _, name := range field.Names {
			at := f.set.Position(name.Pos()).Offset
			edits = append(edits, offsetEdit{at, at + len(name.Name), all[0]})
			all = all[1:]
		}
	}
	return edits
}

// callOf calls the function of a mutant with the arguments of the original.
func callOf(decl *ast.FuncDecl, suffix string) string {
	call := decl.Name.Name + suffix
	if decl.Recv != nil {
		call = names(decl.Recv, "theReceiver")[0] + "." + call
	}
	if of := decl.Type.TypeParams; of != nil {
		call += "[" + strings.Join(names(of, ""), ", ") + "]"
	}
	call += "(" + strings.Join(names(decl.Type.Params, "theArgument"), ", ")
	if list := decl.Type.Params.List; len(list) > 0 {
		if _, variadic := list[len(list)-1].Type.(*ast.Ellipsis); variadic {
			call += "..."
		}
	}
	if call += ")"; decl.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// names are the names of parameters, invented where they have none.
func names(list *ast.FieldList, invented string) (all []string) {
	for _, field := range list.List {
		if len(field.Names) == 0 {
			all = append(all, fmt.Sprint(invented, len(all)))
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				all = append(all, fmt.Sprint(invented, len(all)))
			} else {
				all = append(all, name.Name)
			}
		}
	}
	return all
}

// textOf is a declaration as it stands in the source, without its comment.
func textOf(set *token.FileSet, source string, decl ast.Decl) string {
	return source[set.Position(decl.Pos()).Offset:set.Position(decl.End()).Offset]
}

// headOf is a function's declaration up to its body.
func headOf(set *token.FileSet, source string, decl *ast.FuncDecl) string {
	return source[set.Position(decl.Pos()).Offset:set.Position(decl.Body.Lbrace).Offset]
}
