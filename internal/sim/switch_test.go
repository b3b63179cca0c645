package sim

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A build and a link for each mutant would take most of the time that judging them takes. So a test binary holds all mutants
// that change only bodies of functions: each changed function stands beside the original one, which calls it when its mutant is
// switched on (Untch, Offutt and Harrold, Mutation Analysis Using Mutant Schemata, ISSTA 1993). The others get their own build.

// mutantVariable is the environment variable that switches a mutant on, by its number.
const mutantVariable = "STINT_MUTANT"

// switchboard is the source with all those mutants in it, and the test binaries that were built from it.
type switchboard struct {
	overlay  map[string]string // file of the module -> what the compiler reads in its place
	number   map[mutant]int    // of the mutants that are in it; from 1
	mu       sync.Mutex
	binaries map[string]func() (path string, err error) // by package, as `go test` takes it; under mu
}

// switches is written once for all tests of a run, into a directory that TestMain removes.
var switches = sync.OnceValues(func() (*switchboard, error) {
	b := &switchboard{overlay: make(map[string]string), number: make(map[mutant]int), binaries: make(map[string]func() (string, error))}
	byFile := make(map[string]*switchedFile)
	for _, m := range everyMutant() {
		f := byFile[m.file]
		if f == nil {
			var err error
			if f, err = readSwitched(m.file); err != nil {
				return nil, err
			}
			byFile[m.file] = f
		}
		if _, ok := b.number[m.mutant]; !ok && f.add(m.mutant, len(b.number)+1) {
			b.number[m.mutant] = len(b.number) + 1
		}
	}
	for name, f := range byFile {
		if err := b.replace(name, f.text()); err != nil {
			return nil, err
		}
		// The same for each file of a package.
		state := fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutantOn, _ = strconv.Atoi(os.Getenv(%q))\n",
			f.parsed.Name.Name, mutantVariable)
		if err := b.replace(filepath.Join(filepath.Dir(name), "mutant_on.go"), state); err != nil {
			return nil, err
		}
	}
	return b, nil
})

func everyMutant() []judged {
	return slices.Concat(simulation.sees(mutants), copies.sees(sessionMutants), twin.sees(holdMutants), clusterMutants, errandMutants,
		judgeGuards, raftMutants, trustGuards, tlsMutants, peerGuards, restoreGuards, recoverGuards, secretGuards, privacyGuards,
		envoyGuards, gateGuards, eventMutants)
}

// replace has the compiler read text in place of a file of the module.
func (b *switchboard) replace(file, text string) error {
	path := filepath.Join(scratch, strings.ReplaceAll(file, "/", "-"))
	b.overlay[filepath.Join(root, file)] = path
	return os.WriteFile(path, []byte(text), 0o600)
}

// binary builds the tests of a package, once.
func (b *switchboard) binary(pkg string) (path string, err error) {
	b.mu.Lock()
	build := b.binaries[pkg]
	if build == nil {
		build = sync.OnceValues(func() (string, error) {
			return buildTests(pkg, b.overlay, filepath.Join(scratch, strings.ReplaceAll(pkg[2:], "/", "-")))
		})
		b.binaries[pkg] = build
	}
	b.mu.Unlock()
	return build()
}

// buildTests builds the tests of a package with some files replaced.
func buildTests(pkg string, replace map[string]string, name string) (path string, err error) {
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(name+".json", overlay, 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+name+".json", "-o", name+".test", pkg)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the tests of %s do not build: %w\n%s", pkg, err, output)
	}
	return name + ".test", nil
}

// switchedFile is a source file that gets switches.
type switchedFile struct {
	source string
	set    *token.FileSet
	parsed *ast.File
	first  map[*ast.FuncDecl]string // what the function does first: calls of its mutants
	added  strings.Builder          // their functions
}

func readSwitched(name string) (*switchedFile, error) {
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	f := &switchedFile{source: string(source), set: token.NewFileSet(), first: make(map[*ast.FuncDecl]string)}
	f.parsed, err = parser.ParseFile(f.set, name, source, parser.SkipObjectResolution)
	return f, err
}

// add adds a mutant. It reports false if something else than the bodies of functions differs, which no switch can choose.
func (f *switchedFile) add(m mutant, number int) bool {
	source := strings.Replace(f.source, m.old, m.new, 1)
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, m.file, source, parser.SkipObjectResolution)
	if err != nil || len(parsed.Decls) != len(f.parsed.Decls) {
		return false
	}
	type pair struct{ old, new *ast.FuncDecl }
	var changed []pair
	for i, decl := range f.parsed.Decls {
		if textOf(f.set, f.source, decl) == textOf(set, source, parsed.Decls[i]) {
			continue
		}
		before, ok := decl.(*ast.FuncDecl)
		after, alsoOK := parsed.Decls[i].(*ast.FuncDecl)
		if !ok || !alsoOK || headOf(f.set, f.source, before) != headOf(set, source, after) {
			return false
		}
		changed = append(changed, pair{before, after})
	}
	for _, p := range changed {
		suffix := fmt.Sprintf("Mutant%d", number)
		at := set.Position(p.new.Name.End()).Offset
		begin, end := set.Position(p.new.Pos()).Offset, set.Position(p.new.End()).Offset
		fmt.Fprintf(&f.added, "\n%s%s%s\n", source[begin:at], suffix, source[at:end])
		f.first[p.old] += fmt.Sprintf(" if mutantOn == %d { %s };", number, callOf(p.old, suffix))
	}
	return len(changed) > 0
}

// text is the file with its switches. Lines keep their numbers.
func (f *switchedFile) text() string {
	var edits []edit
	for decl, first := range f.first {
		body := f.set.Position(decl.Body.Lbrace).Offset + 1
		edits = append(edits, edit{body, body, first})
		edits = append(edits, f.named(decl.Recv, "theReceiver")...)
		edits = append(edits, f.named(decl.Type.Params, "theArgument")...)
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var text strings.Builder
	last := 0
	for _, e := range edits {
		text.WriteString(f.source[last:e.from] + e.text)
		last = e.to
	}
	return text.String() + f.source[last:] + f.added.String()
}

// edit puts text in place of what stands between two offsets.
type edit struct {
	from, to int
	text     string
}

// named gives a name to each parameter that has none, so that it can be handed on.
func (f *switchedFile) named(list *ast.FieldList, invented string) (edits []edit) {
	if list == nil {
		return nil
	}
	all := names(list, invented)
	for _, field := range list.List {
		if len(field.Names) == 0 {
			at := f.set.Position(field.Type.Pos()).Offset
			edits = append(edits, edit{at, at, all[0] + " "})
			all = all[1:]
		}
		for _, name := range field.Names {
			at := f.set.Position(name.Pos()).Offset
			edits = append(edits, edit{at, at + len(name.Name), all[0]})
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

// scratch is where the overlays and binaries of this run are.
var scratch string

func TestMain(m *testing.M) { os.Exit(withScratch(m)) }

func withScratch(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "stint-mutants-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}
