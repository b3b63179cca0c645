// The rules of docs/design.md as a test: floors, doors, banned calls, real sleeps, and the size of functions, types and
// manuals.
package stint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/stint-io/stint/"

// floors gives each package its floor. A package imports only lower floors, never its own.
var floors = map[string]int{
	"limit":                   0,
	"policy":                  1,
	"shard/codec":             1, // the bytes of values, both ways
	"shard/slot":              1, // where keys live: known to shards, nodes and clients
	"shard/table":             1, // records in memory, and pictures of them
	"shard":                   2,
	"internal/offline/replay": 3, // offline: evaluates events without a server
	"internal/offline/backup": 3, // offline: the file of a backup
	"internal/gate":           3, // what a request at a gate counts: pure
	"actor":                   3,
	"raftfsm":                 3,
	"cluster":                 3, // the manual of the rooms below it
	"cluster/gossip":          3,
	"cluster/hop":             3,
	"cluster/placement":       4,
	"cluster/peer":            5,
	"cluster/routing":         5,
	"api":                     6,
	"api/redis":               6,
	"node":                    7,
	"cmd/stint":               8,
	"stinttest":               8, // a node in the tests of other programs

	"internal/offline/restore":  5, // offline: a cluster from a backup
	"internal/offline/recovery": 6, // offline: a backup from disks
	"internal/offline/doctor":   4, // asks a running cluster
	"api/gates":                 5, // the answers to proxies
}

// beside lists the packages that stand outside the floors, with the packages of this module that each may import.
var beside = map[string][]string{
	"api/gen/stint/v1":                         {},
	"api/gen/stint/v1/stintv1connect":          {"api/gen/stint/v1"},
	"api/gen/stint/test/v1":                    {},
	"api/gen/stint/test/v1/stinttestv1connect": {"api/gen/stint/test/v1"},
	"api/wire":                   {"api/gen/stint/v1"}, // messages to bytes and back
	"internal/observe/metrics":   {"internal/observe/decisions", "internal/observe/top"},
	"internal/observe/loglimit":  {},                           // how many log lines a flood may cause
	"internal/observe/top":       {},                           // the keys that stand out: sketches without a clock
	"internal/observe/decisions": {"limit", "policy", "shard"}, // events of calls, for all listeners; and as a log
	"client": {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "internal/holder",
		"internal/sleep", "shard/slot"},
	"client/internal/inbound": {"api/gen/stint/v1", "client"}, // what the middlewares share
	"client/stinthttp":        {"api/gen/stint/v1", "client", "client/internal/inbound", "internal/edge/clientaddr"},
	"client/stintconnect":     {"client/internal/inbound", "internal/edge/clientaddr"},
	"client/stintgrpc":        {"client/internal/inbound", "internal/edge/clientaddr"},
	"client/stintlimiter":     {"api/gen/stint/v1", "client", "client/internal/inbound"},
	"internal/holder":         {}, // leases in memory, of nodes and clients
	// how long batches wait: a rule without a clock
	"internal/batchwait": {},
	"internal/sleep":     {}, // a wait for nothing but time
	// how many connections a port has
	"internal/edge/connlimit": {"internal/edge/clientaddr", "internal/observe/loglimit"},
	// the log of calls that fail or are slow
	"internal/observe/calllog": {"internal/observe/decisions", "internal/observe/loglimit"},
	// the client behind a proxy
	"internal/edge/clientaddr": {},
	"internal/observe/trace":   {"internal/observe/decisions", "internal/observe/loglimit", "shard"}, // spans of calls
	// tokens that others sign, and their keys
	"internal/edge/jwks":    {},
	"internal/edge/keyhash": {}, // keys of people as HMAC
	// events on their way to sinks
	"internal/notify": {},
	// authenticates callers, and decides what they may do
	"internal/edge/auth":           {},
	"internal/edge/certfile":       {"internal/observe/loglimit"}, // PEM files that are watched
	"internal/edge/clienttls":      {"internal/edge/certfile"},    // TLS on the ports of clients
	"internal/offline/bench":       {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "client", "internal/sleep"},
	"internal/testing/bubble":      {"cluster/gossip", "shard"}, // for tests: nodes in virtual time
	"internal/testing/await":       {},                          // for tests: waiting
	"internal/testing/testcert":    {},                          // for tests: certificates
	"internal/testing/testcluster": {"internal/sleep"},
	"internal/offline/verify": {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "internal/offline/bench",
		"internal/sleep"},
	"internal/testing/model":   {"limit", "policy"},
	"internal/testing/sim":     {},
	"internal/testing/mutants": {}, // the source with one guard taken out
	// its tests use internal/testing/testcluster, internal/offline/verify and internal/testing/model
	"internal/testing/chaos": {},
	"examples":               {}, // its tests use internal/testing/testcluster
	"examples/go-web":        {"api/gen/stint/v1", "client", "client/stinthttp"},
	// takes events as anybody's program would
	"examples/billing/receiver": {},
	// for tests: a network in memory
	"internal/testing/memnet": {},
	// for tests: a disk in memory
	"internal/testing/memfs": {},
	"examples/demo":          {"client", "client/stinthttp", "internal/testing/testcluster"}, // `make demo`
}

// mayUse lists the packages beside the floors that a package on a floor may import.
var mayUse = map[string][]string{
	"actor":         {"internal/observe/top"},
	"raftfsm":       {"internal/observe/loglimit", "internal/sleep"},
	"internal/gate": {"internal/edge/clientaddr"},
	"api/redis": {"internal/edge/auth", "internal/batchwait", "internal/edge/clienttls",
		"internal/edge/connlimit", "internal/edge/keyhash", "internal/observe/decisions", "internal/observe/loglimit",
		"internal/observe/trace"},
	"api": {"internal/edge/auth", "internal/observe/loglimit", "internal/edge/clienttls",
		"internal/edge/connlimit", "internal/edge/keyhash", "internal/observe/top", "internal/observe/trace",
		"api/wire", "api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "api/gen/stint/test/v1",
		"api/gen/stint/test/v1/stinttestv1connect", "internal/observe/decisions", "internal/notify", "internal/sleep"},
	"stinttest":         {"api/gen/stint/test/v1", "api/gen/stint/test/v1/stinttestv1connect", "client"},
	"cluster/gossip":    {"internal/edge/connlimit", "internal/sleep"},
	"cluster/routing":   {"internal/holder", "internal/sleep"},
	"cluster/placement": {"internal/observe/top", "internal/observe/decisions"}, // questions between nodes
	"cluster/peer": {"internal/edge/certfile", "internal/edge/connlimit", "internal/observe/decisions",
		"internal/observe/loglimit", "internal/sleep"},
	"node": {"api/gen/stint/v1", "internal/edge/auth", "internal/observe/metrics", "internal/edge/clienttls",
		"internal/edge/connlimit", "internal/edge/keyhash", "internal/observe/top", "internal/observe/calllog",
		"internal/observe/trace", "internal/observe/decisions", "internal/observe/loglimit", "internal/notify",
		"internal/sleep"},
	"cmd/stint": {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "internal/edge/auth",
		"internal/offline/bench", "internal/edge/certfile", "internal/edge/clienttls", "internal/testing/testcluster",
		"internal/offline/verify", "internal/observe/decisions"},

	// which tokens a restored cluster believes, and which sinks it disables
	"internal/offline/restore": {"internal/edge/auth", "internal/notify"},
	"internal/offline/doctor":  {"api/gen/stint/v1", "api/gen/stint/v1/stintv1connect", "internal/sleep"},
	"api/gates":                {"api/gen/stint/v1", "internal/edge/jwks", "internal/observe/loglimit"},
}

// doors lists every library and the packages that may import it. A library that is not listed has no door: add it here
// with the reason in the commit.
var doors = map[string][]string{
	"github.com/hashicorp/raft":        {"raftfsm"},
	"github.com/hashicorp/raft-boltdb": {"raftfsm"},
	"go.etcd.io/bbolt":                 {"raftfsm"},
	"github.com/cockroachdb/pebble":    {"raftfsm", "internal/testing/memfs"},
	"github.com/hashicorp/memberlist":  {"cluster/gossip"},
	"connectrpc.com/": {"api", "api/gates", "client", "client/stintconnect", "cmd/stint",
		"internal/offline/bench", "internal/offline/doctor", "internal/offline/verify", "stinttest",
		"api/gen/stint/v1/stintv1connect", "api/gen/stint/test/v1/stinttestv1connect"},
	"google.golang.org/protobuf": {"api", "api/wire", "client", "cmd/stint", "internal/offline/doctor", "node",
		"stinttest", "api/gen/stint/v1", "api/gen/stint/test/v1"},
	"google.golang.org/grpc":            {"api", "client/stintgrpc"},
	"github.com/envoyproxy/":            {"api"}, // the messages of Envoy's rate limit service
	"github.com/prometheus/":            {"internal/observe/metrics"},
	"github.com/alecthomas/kong":        {"cmd/stint"},
	"github.com/HdrHistogram":           {"internal/offline/bench"},
	"go.yaml.in/":                       {"policy", "cmd/stint", "api"}, // messages of policies as nodes of their file
	"golang.org/x/crypto/x509roots":     {"cmd/stint"},                  // authorities for an image that has none
	"golang.org/x/term":                 {"cmd/stint"},
	"golang.org/x/sys":                  {"cmd/stint", "internal/offline/bench", "node", "raftfsm"},
	"github.com/cespare/xxhash":         {"shard", "shard/slot", "shard/table"},
	"github.com/klauspost/compress":     {"internal/offline/backup"},
	"github.com/anishathalye/porcupine": {"internal/testing/model"},
	"github.com/hashicorp/go-hclog":     {"raftfsm"},
	"github.com/go-jose/go-jose":        {"internal/edge/jwks"},
	"google.golang.org/genproto/googleapis": {"api", "client/stintconnect",
		"client/stintgrpc"},
	"go.opentelemetry.io/": {"internal/observe/trace"}, // messages and exporter of traces
}

// testDoors lists what test files may import besides: libraries of tests, and clients that are not ours.
var testDoors = map[string][]string{
	"go.uber.org/goleak": {"actor", "api/redis", "client", "cluster/gossip", "cluster/hop",
		"cluster/peer", "internal/testing/testcluster", "internal/offline/verify", "node", "raftfsm"},
	"github.com/rogpeppe/go-internal":       {"cmd/stint"},
	"github.com/google/jsonschema-go":       {"policy"}, // an editor that reads the schema of policies files
	"github.com/redis/go-redis":             {"api/redis", "node", "internal/testing/chaos"},
	"github.com/go-redis/redis_rate":        {"api/redis"}, // the library that sends its scripts
	"github.com/sethvargo/go-limiter":       {"client/stintlimiter"},
	"github.com/chromedp/":                  {"internal/testing/chaos"}, // an operator at a real browser
	"google.golang.org/grpc":                {"client/internal/inbound", "examples", "node"},
	"github.com/envoyproxy/":                {"examples", "node"},
	"google.golang.org/genproto/googleapis": {"client/internal/inbound"},
	"google.golang.org/protobuf":            {"client/internal/inbound", "examples", "internal/offline/bench"},
	"go.opentelemetry.io/":                  {"node"}, // a collector of traces
	"go.yaml.in/":                           {".", "examples"},
	"connectrpc.com/":                       {"client/internal/inbound", "node"},
}

// rigs are what tests are made of. The test files of any package may import them.
var rigs = []string{"internal/testing/await", "internal/testing/bubble", "internal/testing/testcert",
	"internal/testing/model", "internal/testing/testcluster", "internal/offline/verify", "internal/testing/memnet",
	"internal/testing/memfs"}

// testsMayUse lists the packages of this module that the test files of a package may import besides what the package
// itself may, its own and the rigs.
var testsMayUse = map[string][]string{
	"cmd/stint":              {"internal/edge/keyhash"},
	"node":                   {"api/gen/stint/v1/stintv1connect"},
	"internal/offline/bench": {"api/gen/stint/v1"},
	"client/internal/inbound": {"stinttest", "api/gen/stint/v1/stintv1connect", "client/stintconnect",
		"client/stintgrpc", "client/stinthttp"},
	"client/stintlimiter":    {"stinttest"},
	"internal/edge/keyhash":  {"policy", "shard", "shard/slot"},
	"internal/testing/chaos": {"cluster/peer", "internal/offline/backup", "limit", "shard"},
	"client":                 {"node"}, // the node of the examples
	"stinttest":              {"api/gen/stint/v1"},
	"examples/go-web":        {"stinttest"},
	"internal/testing/sim": {"api", "api/gen/stint/v1", "cluster/gossip", "node", "limit", "policy",
		"shard", "shard/slot"},
}

// pureImports are banned on floors 0 to 2: the core has no disk, network, randomness or goroutines.
var pureImports = []string{"os", "net", "sync", "math/rand", "math/rand/v2", "crypto/rand", "sync/atomic", "net/http"}

// clockCalls are the functions of package time that read a clock or start a timer.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// longFunctions may exceed maxFunctionLines; each entry gives its reason.
var longFunctions = map[string]string{
	"api/gen/stint/v1/stintv1connect/NewClusterServiceHandler": "generated: five lines for each procedure",
	"api/gen/stint/v1/stintv1connect/NewLimitServiceHandler":   "generated: five lines for each procedure",
	"api/gen/stint/v1/stintv1connect/NewSinkServiceHandler":    "generated: five lines for each procedure",
}

const maxFunctionLines = 70

// manyMethods lists the types that may have more than maxMethods methods; each entry gives its reason.
var manyMethods = map[string]string{}

const maxMethods = 40

// sourceFile is one file of this module.
type sourceFile struct {
	name    string
	pkg     string // directory below the module's root
	syntax  *ast.File
	imports []string
	test    bool
}

func TestImportsGoDownOnly(t *testing.T) {
	used := map[string]bool{} // imports, as package and imported package
	for _, f := range allSources(t) {
		floor, onFloor := floors[f.pkg]
		allowed, isBeside := beside[f.pkg]
		if !onFloor && !isBeside && f.pkg != "." {
			t.Errorf("%s: package %q has no place in the house: give it a floor in arch_test.go", f.name, f.pkg)
			continue
		}
		allowed = slices.Concat(allowed, mayUse[f.pkg])
		if f.test {
			allowed = slices.Concat(allowed, testsMayUse[f.pkg], rigs, []string{f.pkg})
		}
		for _, imported := range f.imports {
			ours, found := strings.CutPrefix(imported, module)
			used[f.pkg+" "+ours] = true
			if !found || slices.Contains(allowed, ours) {
				continue
			}
			if below, ok := floors[ours]; !onFloor || !ok || below >= floor {
				t.Errorf("%s imports %q: arrows point down only", f.name, ours)
			}
		}
	}
	for _, lists := range []map[string][]string{beside, mayUse, testsMayUse} {
		for pkg, allowed := range lists {
			for _, ours := range allowed {
				if !used[pkg+" "+ours] {
					t.Errorf("arch_test.go lets %s import %s, which it does not", pkg, ours)
				}
			}
		}
	}
}

func TestEachLibraryHasItsDoors(t *testing.T) {
	used := map[string]bool{} // doors, as library and package
	for _, f := range allSources(t) {
		for _, imported := range f.imports {
			if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") || isUnder(imported, module) {
				continue // the standard library, or ours
			}
			if !opens(doors, imported, f.pkg, used) && !(f.test && opens(testDoors, imported, f.pkg, used)) {
				t.Errorf("%s imports %q, and arch_test.go gives it no door there", f.name, imported)
			}
		}
	}
	for _, doors := range []map[string][]string{doors, testDoors} {
		for library, packages := range doors {
			for _, pkg := range packages {
				if !used[library+" "+pkg] {
					t.Errorf("arch_test.go gives %s a door in %s, through which nothing comes", library, pkg)
				}
			}
		}
	}
}

// opens reports whether a package may import a path, and notes the door.
func opens(doors map[string][]string, imported, pkg string, used map[string]bool) (open bool) {
	for library, packages := range doors {
		if isUnder(imported, library) && slices.Contains(packages, pkg) {
			used[library+" "+pkg], open = true, true
		}
	}
	return open
}

// isUnder reports whether an import path is a library's own, or that of a package or major version below it.
func isUnder(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, strings.TrimSuffix(library, "/")+"/")
}

func TestTheCoreIsPure(t *testing.T) {
	for f := range sources(t) {
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
	for f := range sources(t) {
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
	for f := range sources(t) {
		for _, declaration := range f.syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := positions.Position(function.End()).Line - positions.Position(function.Pos()).Line + 1
			name := path.Join(f.pkg, function.Name.Name)
			if _, excused := longFunctions[name]; lines > maxFunctionLines && !excused {
				t.Errorf("%s has %d lines, more than %d: split it, or give the reason in arch_test.go",
					name, lines, maxFunctionLines)
			}
		}
	}
}

func TestTypesHaveFewMethods(t *testing.T) {
	// by type: a set, since files for different systems may declare the same method
	methods := map[string]map[string]bool{}
	for f := range sources(t) {
		if strings.HasPrefix(f.pkg, "api/gen") {
			continue
		}
		for _, declaration := range f.syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv == nil {
				continue
			}
			name := f.pkg + "." + receiverType(function)
			if methods[name] == nil {
				methods[name] = map[string]bool{}
			}
			methods[name][function.Name.Name] = true
		}
	}
	for name, own := range methods {
		if _, excused := manyMethods[name]; len(own) > maxMethods && !excused {
			t.Errorf("%s has %d methods, more than %d: part it, or give the reason in arch_test.go",
				name, len(own), maxMethods)
		}
	}
	for name := range manyMethods {
		if len(methods[name]) <= maxMethods {
			t.Errorf("%s has %d methods and needs no excuse in arch_test.go", name, len(methods[name]))
		}
	}
}

// lightModules are the modules that a program links when it imports one of these packages: a client carries no server.
var lightModules = map[string][]string{
	"client":              {"connectrpc.com/connect", "github.com/cespare/xxhash/v2", "google.golang.org/protobuf"},
	"client/stinthttp":    {"connectrpc.com/connect", "github.com/cespare/xxhash/v2", "google.golang.org/protobuf"},
	"client/stintlimiter": {"connectrpc.com/connect", "github.com/cespare/xxhash/v2", "google.golang.org/protobuf"},
	"client/stintconnect": {"connectrpc.com/connect", "github.com/cespare/xxhash/v2",
		"google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf"},
	"client/stintgrpc": {"connectrpc.com/connect", "github.com/cespare/xxhash/v2", "golang.org/x/net",
		"golang.org/x/sys", "golang.org/x/text", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc",
		"google.golang.org/protobuf"},
}

// TestClientsAreLight holds that neither Raft nor Pebble nor any other part of the server comes along with a client.
func TestClientsAreLight(t *testing.T) {
	for pkg, want := range lightModules {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{end}}{{.ImportPath}}", "./"+pkg)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%v: %v", list, err)
		}
		modules := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			in, imported, found := strings.Cut(strings.TrimSpace(line), " ")
			ours, isOurs := strings.CutPrefix(imported, module)
			switch {
			case !found: // the standard library
			case !isOurs:
				modules[in] = true
			case !strings.HasPrefix(ours, "client") && !strings.HasPrefix(ours, "api/gen/stint/v1") &&
				ours != "shard/slot" && ours != "internal/edge/clientaddr" && ours != "internal/holder" &&
				ours != "internal/sleep":
				t.Errorf("a program with %s links %s", pkg, ours)
			}
		}
		if got := slices.Sorted(maps.Keys(modules)); !slices.Equal(got, want) {
			t.Errorf("a program with %s links %v, want %v", pkg, got, want)
		}
	}
}

// receiverType returns the name of the type that a method belongs to.
func receiverType(method *ast.FuncDecl) string {
	expression := method.Recv.List[0].Type
	for {
		switch x := expression.(type) {
		case *ast.StarExpr:
			expression = x.X
		case *ast.IndexExpr:
			expression = x.X
		case *ast.IndexListExpr:
			expression = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func TestEveryPackageHasItsManual(t *testing.T) {
	seen := map[string]bool{}
	for f := range sources(t) {
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
	for pkg := range seen {
		if isPublic := slices.Contains(public, pkg); isPublic != says(t, pkg, "is a public API") {
			t.Errorf("%s/doc.go must say that the package is a public API, and the packages of the server must not",
				pkg)
		}
	}
	for pkg := range floors {
		if !seen[pkg] {
			t.Errorf("arch_test.go gives %q a floor, but there is no such package", pkg)
		}
	}
}

// public lists the packages that programs other than stint may import; docs/design.md says so of no other.
var public = []string{"client", "client/stintconnect", "client/stintgrpc", "client/stinthttp", "client/stintlimiter",
	"limit", "policy", "stinttest"}

// says reports whether a package's manual has this text.
func says(t *testing.T, pkg, text string) bool {
	t.Helper()
	manual, err := os.ReadFile(filepath.Join(pkg, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(manual), text)
}

// positions are those in the files of parsed.
var positions = token.NewFileSet()

// parsed is every Go file of the module, whatever its build tags, read once for all rules.
var parsed = sync.OnceValues(parseAll)

func allSources(t *testing.T) []sourceFile {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sources yields the files that are not tests.
func sources(t *testing.T) iter.Seq[sourceFile] {
	return func(yield func(sourceFile) bool) {
		for _, f := range allSources(t) {
			if !f.test && !yield(f) {
				return
			}
		}
	}
}

func parseAll() (found []sourceFile, err error) {
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." &&
			(strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isOtherModule(name)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f := sourceFile{name: name, pkg: filepath.ToSlash(filepath.Dir(name)), syntax: syntax,
			test: strings.HasSuffix(name, "_test.go")}
		for _, spec := range syntax.Imports {
			f.imports = append(f.imports, strings.Trim(spec.Path.Value, `"`))
		}
		found = append(found, f)
		return nil
	})
	return found, err
}

func isOtherModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
