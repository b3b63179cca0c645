// The house rules of ARCHITECTURE.md as a test: floors, doors, banned calls, and the size of things.
package stint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stint-io/stint/"

// floors says which packages stand where. A package imports lower floors only, never one of its own floor.
var floors = map[string]int{
	"limit":           0,
	"policy":          1,
	"shard":           2,
	"internal/replay": 3, // offline: evaluates events without a server
	"cluster":         3,
	"actor":           3,
	"raftfsm":         3,
	"api":             4,
	"api/redis":       4,
	"node":            5,
	"cmd/stint":       6,
}

// beside are packages that stand outside the floors: what they may import of ours, and nothing else.
var beside = map[string][]string{
	"api/gen/stint/v1":                {},
	"api/gen/stint/v1/stintv1connect": {"api/gen/stint/v1"},
	"metrics":                         {},
	"shard/placement":                 {}, // where keys live: known to shards and to clients
	"client":                          {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "shard/placement"},
	"internal/convoy":                 {}, // how long batches wait: a rule without a clock
	"internal/load":                   {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "client"},
	"internal/lab":                    {},
	"internal/verify":                 {},
	"internal/check":                  {"limit", "policy", "shard"},
	"internal/sim":                    {},
	"internal/chaos":                  {}, // its tests use internal/lab, internal/verify and internal/check
	"examples":                        {}, // its tests use internal/lab
	"raftfsm/memnet":                  {}, // for tests: a network in memory
	"raftfsm/memfs":                   {}, // for tests: a disk in memory
}

// mayUse lists what a floor takes from beside it.
var mayUse = map[string][]string{
	"shard":     {"shard/placement"},
	"api/redis": {"internal/convoy"},
	"api":       {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect"},
	"node":      {"metrics"},
	"cmd/stint": {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "internal/load", "internal/lab", "internal/verify"},
}

// doors says through which packages a library comes in.
var doors = map[string][]string{
	"github.com/hashicorp/raft":             {"raftfsm"},
	"github.com/hashicorp/raft-boltdb":      {"raftfsm"},
	"go.etcd.io/bbolt":                      {"raftfsm"},
	"github.com/cockroachdb/pebble":         {"raftfsm", "raftfsm/memfs"},
	"github.com/hashicorp/memberlist":       {"cluster"},
	"connectrpc.com/":                       {"api", "client", "cmd/stint", "internal/load", "api/gen/stint/v1/stintv1connect"},
	"google.golang.org/protobuf":            {"api", "client", "cmd/stint", "internal/load", "api/gen/stint/v1"},
	"google.golang.org/grpc":                {"api", "internal/load"},
	"github.com/prometheus/":                {"metrics"},
	"github.com/alecthomas/kong":            {"cmd/stint"},
	"github.com/HdrHistogram":               {"internal/load"},
	"go.yaml.in/":                           {"policy", "cmd/stint"},
	"github.com/schollz/progressbar":        {"cmd/stint"},
	"github.com/anishathalye/porcupine":     {"internal/check"},
	"pgregory.net/rapid":                    {},
	"github.com/rogpeppe/go-internal":       {},
	"github.com/hashicorp/go-hclog":         {"raftfsm"},
	"google.golang.org/genproto/googleapis": {"api", "client", "cmd/stint"},
}

// pureImports are banned on floors 0 to 2: the core knows no disk, no network, no chance and no other goroutine.
var pureImports = []string{"os", "net", "sync", "math/rand", "math/rand/v2", "crypto/rand", "sync/atomic", "net/http"}

// clockCalls are the functions of package time that read a clock or start a timer.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// longFunctions may be longer than maxFunctionLines, each for a reason.
var longFunctions = map[string]string{}

const maxFunctionLines = 70

// sourceFile is one non-test file of ours.
type sourceFile struct {
	name    string
	pkg     string // directory below the module's root
	syntax  *ast.File
	imports []string
}

func TestImportsGoDownOnly(t *testing.T) {
	for _, f := range sources(t) {
		floor, onFloor := floors[f.pkg]
		allowed, isBeside := beside[f.pkg]
		if !onFloor && !isBeside {
			t.Errorf("%s: package %q has no place in the house: give it a floor in arch_test.go", f.name, f.pkg)
			continue
		}
		for _, imported := range f.imports {
			ours, found := strings.CutPrefix(imported, module)
			if !found || slices.Contains(allowed, ours) || slices.Contains(mayUse[f.pkg], ours) {
				continue
			}
			if below, ok := floors[ours]; !onFloor || !ok || below >= floor {
				t.Errorf("%s imports %q: arrows point down only", f.name, ours)
			}
		}
	}
}

func TestEachLibraryHasOneDoor(t *testing.T) {
	for _, f := range sources(t) {
		for _, imported := range f.imports {
			for library, packages := range doors {
				if isUnder(imported, library) && !slices.Contains(packages, f.pkg) {
					t.Errorf("%s imports %q: its door is %v", f.name, imported, packages)
				}
			}
		}
	}
}

// isUnder reports whether an import path is a library's or that of a package, or a major version, below it.
func isUnder(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, strings.TrimSuffix(library, "/")+"/")
}

func TestTheCoreIsPure(t *testing.T) {
	for _, f := range sources(t) {
		if floor, ok := floors[f.pkg]; !ok || floor > 2 {
			continue
		}
		for _, imported := range f.imports {
			if slices.Contains(pureImports, imported) {
				t.Errorf("%s imports %q: floors 0 to 2 know no clock, no I/O and no goroutine", f.name, imported)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", f.name)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockCalls, n.Sel.Name) {
					t.Errorf("%s calls time.%s", f.name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestLimitKnowsNoFloat(t *testing.T) {
	for _, f := range sources(t) {
		if f.pkg != "limit" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if x, ok := n.(*ast.Ident); ok && (x.Name == "float64" || x.Name == "float32") {
				t.Errorf("%s uses %s", f.name, x.Name)
			}
			return true
		})
	}
}

func TestFunctionsFitIntoAHead(t *testing.T) {
	files := token.NewFileSet()
	for _, f := range parse(t, files) {
		for _, declaration := range f.syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := files.Position(function.End()).Line - files.Position(function.Pos()).Line + 1
			name := path.Join(f.pkg, function.Name.Name)
			if _, excused := longFunctions[name]; lines > maxFunctionLines && !excused {
				t.Errorf("%s has %d lines, more than %d: split it, or give the reason in arch_test.go", name, lines, maxFunctionLines)
			}
		}
	}
}

func TestEveryPackageHasItsManual(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range sources(t) {
		if strings.HasPrefix(f.pkg, "api/gen") || seen[f.pkg] {
			continue
		}
		seen[f.pkg] = true
		text, err := os.ReadFile(filepath.Join(f.pkg, "doc.go"))
		if err != nil {
			t.Errorf("%s: %v", f.pkg, err)
			continue
		}
		if lines := strings.Count(string(text), "\n"); lines < 5 {
			t.Errorf("%s/doc.go has %d lines: it is the package's manual", f.pkg, lines)
		}
	}
	for pkg := range floors {
		if !seen[pkg] {
			t.Errorf("arch_test.go gives %q a floor, but there is no such package", pkg)
		}
	}
}

func sources(t *testing.T) []sourceFile { return parse(t, token.NewFileSet()) }

// parse reads every non-test Go file of the module.
func parse(t *testing.T, files *token.FileSet) (found []sourceFile) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isOtherModule(name)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		syntax, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f := sourceFile{name: name, pkg: filepath.ToSlash(filepath.Dir(name)), syntax: syntax}
		for _, spec := range syntax.Imports {
			f.imports = append(f.imports, strings.Trim(spec.Path.Value, `"`))
		}
		found = append(found, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func isOtherModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
