package stint

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// realClock lists the functions of tests that may wait, judge or give up by the machine's clock, each with its reason.
// Everything else that takes time is awaited (internal/testing/await), or happens in a synctest bubble. A package's
// name stands for all of its tests.
var realClock = map[string]string{
	"actor.within": "its callers outside bubbles are patient",
	"api.ownWorld": "its callers outside bubbles are patient",
	"examples.TestEnvoysNeverGetMoreThanTheLimit":             "a call without an answer in time is in doubt, and counted as such",
	"internal/testing/testcluster.TestADelayIsAddedToEachWay": "an echo takes no less than the delay",
	"internal/testing/testcluster.talk":                       "silence lasts on a machine that is slow",
	"internal/testing/sim":                                    "its worlds are in bubbles",
	"node.dial":                                               "the memory of a bubble",
	"node.patient":                                            "outside bubbles it is patient",
	"cluster/routing.ask":                                     "of its two methods, those that wait are in bubbles",
	"internal/offline/bench.decide":                           "a server that stalls: the latencies must be no shorter",
	"internal/notify.TestAHangingReceiverIsLeft":              "whenever the time is over, the reason is the same",
	"internal/testing/chaos.pause":                            "a client between two tries; the time that a fault or a load lasts",
	"internal/testing/chaos.run":                              "the ticks of a load, or of a fault",
	"client.run":                                              "whenever the time is over of a call that reaches no node, its error is the same",
	"client.TestWhatFailsBeforeTLSStandsIsCertainlyNotCounted": "each try may take twice as long as " +
		"the one before",
	"cmd/stint.TestStrangersConnectionsDoNotEndANode":    "each try may take twice as long as the one before",
	"cmd/stint.TestWhatWasNeverSentWasNotCounted":        "whenever the time is over, nothing was sent",
	"raftfsm.TestWhyTheDiskEndedAProcessIsToldToTheNext": "an instant lies between two readings, however far apart",
}

// leastPatience is how long a test must be ready to wait: what gives up earlier fails on a machine that is busy.
const leastPatience = 2 * time.Minute

func TestNoVerdictOfTheRealClock(t *testing.T) {
	all, byDefault, found := map[string][]*ast.File{}, map[string][]*ast.File{}, map[string]bool{}
	for _, f := range allSources(t) {
		if !f.test {
			continue
		}
		all[f.pkg] = append(all[f.pkg], f.syntax)
		matches, err := build.Default.MatchFile(path.Dir(f.name), path.Base(f.name))
		if err != nil {
			t.Fatal(err)
		}
		if matches {
			byDefault[f.pkg] = append(byDefault[f.pkg], f.syntax)
		}
	}
	for pkg, files := range all {
		// Tests behind a build tag may set limits to real processes, but do not wait for the time to pass either.
		sleeps := slices.DeleteFunc(realClockUses(files), func(use clockUse) bool { return use.what != sleeping })
		for _, use := range slices.Concat(realClockUses(byDefault[pkg]), sleeps) {
			name := pkg + "." + use.function
			found[name], found[pkg] = true, true
			if realClock[name] == "" && realClock[pkg] == "" {
				t.Errorf("%s %s: use internal/testing/await or a synctest bubble, "+
					"or give the reason in arch_clock_test.go", name, use.what)
			}
		}
	}
	for name := range realClock {
		if !found[name] {
			t.Errorf("arch_clock_test.go lets %s go by the machine's clock, and nothing there does", name)
		}
	}
}

// Cases that the rule sees, and cases that it lets pass.
func TestAVerdictOfTheRealClockIsSeen(t *testing.T) {
	for text, want := range map[string]string{
		`func TestX() { time.Sleep(1) }`:                                                                                                     "TestX sleeps",
		`func TestX() { select { case <-time.After(1): } }`:                                                                                  "TestX sleeps",
		`func TestX() { a() }; func a() { b() }; func b() { for range time.Tick(1) {} }`:                                                     "b sleeps",
		`func helper() { time.Sleep(1) }`:                                                                                                    "",
		`func TestX() { synctest.Test(t, func(*testing.T) { go func() { time.Sleep(1) }() }) }`:                                              "",
		`func TestX() { synctest.Test(t, func(*testing.T) {}); time.Sleep(1) }`:                                                              "TestX sleeps",
		`func TestX() { synctest.Test(t, a) }; func a(*testing.T) { time.Sleep(1) }`:                                                         "",
		`func TestX() { in(func() { time.Sleep(1) }) }; func in(f func()) { synctest.Test(t, f) }`:                                           "",
		`func TestX() { up(func() { time.Sleep(1) }) }; func up(f func()) { in(func() { f() }) }; func in(f func()) { synctest.Test(t, f) }`: "",
		`func TestX() { in(func() { time.Sleep(1) }) }; func in(f func()) { synctest.Test(t, f); f() }`:                                      "TestX sleeps",
		`func TestX() { in(func() { time.Sleep(1) }) }; func in(f func()) { f() }`:                                                           "TestX sleeps",
		`func TestX() { serve(fake{}); o.send() }; func o() { fake{}.send() }; type fake int; func (f fake) send() { time.Sleep(1) }`:        "send sleeps",
		`func TestX() { serve(fake{}); synctest.Test(t, func() { fake{}.send() }) }; type fake int; func (f fake) send() { time.Sleep(1) }`:  "",
		`func TestX() { serve(fake{}) }; type fake int; func (f fake) send() { time.Sleep(1) }`:                                              "send sleeps",
		`func TestX() { serve(fake{}) }; type fake int; func (f fake) Send() { time.Sleep(1) }`:                                              "Send sleeps",
		`func TestX() { synctest.Test(t, func() { serve(fake{}) }) }; type fake int; func (f fake) Send() { time.Sleep(1) }`:                 "",
		`func TestX() { later() }; var later = func() { <-time.NewTimer(1).C }`:                                                              "later sleeps",
		`func TestX() { if time.Since(began) > 1 { t.Error() } }`:                                                                            "TestX measures",
		`func TestX() { began := time.Now(); a(); if time.Now().Sub(began) > 1 { t.Error() } }`:                                              "TestX measures",
		`func TestX() { for late := time.Now().Add(time.Hour); time.Now().Before(late); { a() } }`:                                           "TestX measures",
		`func TestX() { certificate(time.Now().Add(time.Hour)) }`:                                                                            "",
		`func TestX() { ctx, cancel := context.WithTimeout(ctx, time.Second) }`:                                                              "TestX gives up early",
		`func TestX() { ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) }`:                                                            "",
		`const soon = 20 * time.Second; func TestX() { ctx, cancel := context.WithTimeout(ctx, soon) }`:                                      "TestX gives up early",
		`func TestX() { ctx, cancel := context.WithTimeout(ctx, patience) }`:                                                                 "TestX gives up early",
		`func TestX() { ctx, cancel := context.WithTimeout(ctx, await.Patience) }`:                                                           "",
		`func TestX() { ctx, cancel := context.WithDeadline(ctx, time.Now().Add(time.Second)) }`:                                             "TestX gives up early",
		`func TestX() { conn.SetReadDeadline(time.Now().Add(time.Second)) }`:                                                                 "TestX gives up early",
		`func TestX() { conn.SetDeadline(time.Now().Add(3*time.Minute)); conn.SetDeadline(time.Time{}) }`:                                    "",
		`func TestX() { client.Timeout = 5 * time.Second }`:                                                                                  "TestX gives up early",
		`func TestX() { ask(http.Client{Timeout: 5 * time.Second}) }`:                                                                        "TestX gives up early",
	} {
		syntax, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x; "+text,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		said := make([]string, 0)
		for _, use := range realClockUses([]*ast.File{syntax}) {
			said = append(said, use.function+" "+use.what)
		}
		if got := strings.Join(said, ", "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// sleeping is what the rule says of a function that waits for a time to pass.
const sleeping = "sleeps"

// clockUse is what a function of a test does by the machine's clock.
type clockUse struct{ function, what string }

// clockRule finds what the tests of a package do by the machine's clock. A helper counts if a test names it outside
// bubbles, itself or through others. A method counts if its type is named so, and its own name too; an exported one,
// and one that no test names, may be called by the code that is tested. Names stand for what they name, whatever their
// scope.
type clockRule struct {
	declared           map[string][]ast.Node
	methods            map[string][]*ast.FuncDecl // by type
	openers            []string
	named              map[string]bool // by a test, in a bubble or not
	reached, mentioned map[string]bool // functions, types and variables; and methods, all outside bubbles
	visited            map[ast.Node]bool
	uses               []clockUse
}

// realClockUses returns what the tests in a package's files do by the machine's clock.
func realClockUses(files []*ast.File) []clockUse {
	r := &clockRule{declared: map[string][]ast.Node{}, methods: map[string][]*ast.FuncDecl{}, named: map[string]bool{},
		reached: map[string]bool{}, mentioned: map[string]bool{}, visited: map[ast.Node]bool{}}
	for _, file := range files {
		for _, declaration := range file.Decls {
			r.declare(declaration)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				r.named[selector.Sel.Name] = true
			}
			return true
		})
	}
	r.findOpeners()
	for name := range r.declared {
		r.reached[name] = isEntry(name)
	}
	for before := -1; before < len(r.visited); {
		before = len(r.visited)
		r.visitReached()
	}
	slices.SortFunc(r.uses, func(a, b clockUse) int { return strings.Compare(a.function+a.what, b.function+b.what) })
	return slices.Compact(r.uses)
}

// declare notes what a declaration gives a name to.
func (r *clockRule) declare(declaration ast.Decl) {
	if function, ok := declaration.(*ast.FuncDecl); ok {
		if function.Recv != nil {
			r.methods[receiverType(function)] = append(r.methods[receiverType(function)], function)
		} else {
			r.declared[function.Name.Name] = append(r.declared[function.Name.Name], function)
		}
		return
	}
	for _, spec := range declaration.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			r.declared[spec.Name.Name] = append(r.declared[spec.Name.Name], spec)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				r.declared[name.Name] = append(r.declared[name.Name], spec)
			}
		}
	}
}

// visitReached looks at what is known to run outside bubbles.
func (r *clockRule) visitReached() {
	for name, nodes := range r.declared {
		if !r.reached[name] {
			continue
		}
		for _, node := range nodes {
			r.visit(name, node)
		}
		for _, method := range r.methods[name] {
			if method.Name.IsExported() || r.mentioned[method.Name.Name] || !r.named[method.Name.Name] {
				r.visit(method.Name.Name, method)
			}
		}
	}
}

func (r *clockRule) visit(name string, node ast.Node) {
	if r.visited[node] {
		return
	}
	r.visited[node] = true
	r.uses = append(r.uses, r.usesIn(name, node)...)
	other := map[*ast.Ident]bool{} // names that stand for no function or type of the package
	for n := range r.outsideBubbles(node) {
		switch n := n.(type) {
		case *ast.Ident:
			r.reached[n.Name] = r.reached[n.Name] || !other[n]
		case *ast.SelectorExpr:
			r.mentioned[n.Sel.Name], other[n.Sel] = true, true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				other[key] = true
			}
		case *ast.Field:
			for _, name := range n.Names {
				other[name] = true
			}
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if name, ok := to.(*ast.Ident); ok && n.Tok == token.DEFINE {
					other[name] = true
				}
			}
		}
	}
}

// isEntry reports whether tests begin with a function. Benchmarks are not judged.
func isEntry(name string) bool {
	return name == "init" || slices.ContainsFunc([]string{"Test", "Fuzz", "Example"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// findOpeners finds the functions that run what they are given in a synctest bubble, and nowhere else.
func (r *clockRule) findOpeners() {
	for before := -1; before < len(r.openers); {
		before = len(r.openers)
		for name, nodes := range r.declared {
			if function, ok := nodes[0].(*ast.FuncDecl); ok && !slices.Contains(r.openers, name) &&
				r.opensBubble(function) {
				r.openers = append(r.openers, name)
			}
		}
	}
}

// opensBubble reports whether a function uses its parameters that are functions, and in bubbles only.
func (r *clockRule) opensBubble(function *ast.FuncDecl) bool {
	given, inside := map[string]bool{}, false
	for _, parameter := range function.Type.Params.List {
		_, isFunction := parameter.Type.(*ast.FuncType)
		selector, isNamed := parameter.Type.(*ast.SelectorExpr)
		for _, name := range parameter.Names {
			given[name.Name] = isFunction || isNamed && selector.Sel.Name == "HandlerFunc"
		}
	}
	for n := range r.outsideBubbles(function.Body) {
		if used, ok := n.(*ast.Ident); ok && given[used.Name] {
			return false
		}
	}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		used, ok := n.(*ast.Ident)
		inside = inside || ok && given[used.Name]
		return true
	})
	return inside
}

// outsideBubbles yields the nodes below one that do not run in a bubble.
func (r *clockRule) outsideBubbles(below ast.Node) func(yield func(ast.Node) bool) {
	return func(yield func(ast.Node) bool) {
		goOn := true
		ast.Inspect(below, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				opener, ok := call.Fun.(*ast.Ident)
				if isCallOf(call, "synctest", "Test") || isCallOf(call, "bubble", "Run") ||
					ok && slices.Contains(r.openers, opener.Name) {
					return false
				}
			}
			goOn = goOn && (n == nil || yield(n))
			return goOn
		})
	}
}

// usesIn returns what a declaration does by the machine's clock, outside bubbles.
func (r *clockRule) usesIn(function string, node ast.Node) (uses []clockUse) {
	readsClock, compares := false, false
	note := func(what string) { uses = append(uses, clockUse{function, what}) }
	for n := range r.outsideBubbles(node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			selector, _ := n.Fun.(*ast.SelectorExpr)
			switch {
			case isCallOf(n, "time", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"):
				note(sleeping)
			case isCallOf(n, "time", "Since", "Until"):
				note("measures")
			case isCallOf(n, "time", "Now"):
				readsClock = true
			case selector != nil && slices.Contains([]string{"Sub", "Before", "After", "Compare"}, selector.Sel.Name):
				compares = true
			case isCallOf(n, "context", "WithTimeout", "WithTimeoutCause") && !r.isPatient(n.Args[1]),
				isCallOf(n, "context", "WithDeadline", "WithDeadlineCause") && !r.isLate(n.Args[1]),
				selector != nil && isDeadline(selector.Sel.Name) && len(n.Args) == 1 && !r.isLate(n.Args[0]):
				note("gives up early")
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				field, ok := to.(*ast.SelectorExpr)
				if ok && strings.HasSuffix(field.Sel.Name, "Timeout") && len(n.Rhs) == len(n.Lhs) &&
					!r.isPatient(n.Rhs[i]) {
					note("gives up early")
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && strings.HasSuffix(key.Name, "Timeout") && !r.isPatient(n.Value) {
				note("gives up early")
			}
		}
	}
	if readsClock && compares {
		note("measures")
	}
	return uses
}

func isDeadline(method string) bool {
	return slices.Contains([]string{"SetDeadline", "SetReadDeadline", "SetWriteDeadline"}, method)
}

// isLate reports whether an expression is no time at all, or time.Now().Add of a duration that is long enough.
func (r *clockRule) isLate(expression ast.Expr) bool {
	if literal, ok := expression.(*ast.CompositeLit); ok {
		return len(literal.Elts) == 0
	}
	add, ok := expression.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := add.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Add" {
		return false
	}
	now, ok := selector.X.(*ast.CallExpr)
	return ok && isCallOf(now, "time", "Now") && r.isPatient(add.Args[0])
}

// isPatient reports whether an expression is certainly a duration that is long enough.
func (r *clockRule) isPatient(expression ast.Expr) bool {
	return r.durationOf(expression) >= leastPatience
}

// durationOf returns the value of a constant expression, and 0 if it is none that can be read here.
func (r *clockRule) durationOf(expression ast.Expr) time.Duration {
	switch e := expression.(type) {
	case *ast.BasicLit:
		n, _ := strconv.ParseInt(e.Value, 10, 64)
		return time.Duration(n)
	case *ast.SelectorExpr:
		x, _ := e.X.(*ast.Ident)
		if x != nil && strings.HasPrefix(x.Name, "await") && e.Sel.Name == "Patience" {
			return await.Patience
		}
		if x != nil && x.Name == "time" {
			return map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]
		}
	case *ast.BinaryExpr:
		if e.Op == token.MUL {
			return r.durationOf(e.X) * r.durationOf(e.Y)
		}
	case *ast.Ident:
		for _, node := range r.declared[e.Name] {
			if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
				return r.durationOf(spec.Values[0])
			}
		}
	}
	return 0
}

func isCallOf(call *ast.CallExpr, pkg string, functions ...string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(functions, selector.Sel.Name) {
		return false
	}
	x, ok := selector.X.(*ast.Ident)
	return ok && x.Name == pkg
}
