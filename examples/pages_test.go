//go:build pages

package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pages have commands for a whole machine: they build stint in a clone, and their nodes listen at the ports of the
// manual. So they are typed one after the other, by `make pages` and not by `go test ./...`. The words behind "sh" say
// how:
//
//	sh          typed into the page's shell
//	sh server   the same, by somebody who has another terminal for the rest; ended before the next one
//	sh alone    after the page has had its reader stop that server
//	sh docker   needs an engine: TestPagesOfContainers (`make docker`)
//	sh test     the tests themselves, which .ci/run calls
//
// A block "text" says what is printed last, but for instants and durations; "json" as in recipes.
var pages = []string{"README.md", "docs/start.md", "docs/api.md", "docs/redis.md", "docs/cluster.md",
	"docs/operations.md", "docs/security.md", "docs/edge.md", "examples/README.md"}

// TestPages types the commands of each page in a copy of the repository as a clone would have it.
func TestPages(t *testing.T) {
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			if page == "docs/redis.md" {
				for _, tool := range []string{"redis-cli", "redis-benchmark"} {
					if _, err := exec.LookPath(tool); err != nil {
						t.Fatalf("%s needs Debian's redis-tools: %v", page, err)
					}
				}
			}
			typed(t, page, "sh", "sh alone", "sh server")
		})
	}
}

// TestPagesOfContainers does the same with the commands for containers.
func TestPagesOfContainers(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			exec.Command("docker", "rm", "-f", "stint", "stint4", "stint_stint1_1", "stint_stint2_1", "stint_stint3_1").Run()
		}
	})
	for _, page := range []string{"docs/cluster.md", "docs/install.md"} {
		t.Run(page, func(t *testing.T) { typed(t, page, "sh docker") })
	}
}

// prologue is what the reader does unasked: stops what is in the way, and waits until what was started is ready.
const prologue = `set -eum
server=
stop() { test -z "$server" || { kill -INT -- -$server; wait $server || true; server=; }; }
ready() { until curl -sf http://127.0.0.1:7400/readyz > /dev/null; do kill -0 $server; sleep 0.2; done; kill -0 $server; }
trap 'for job in $(jobs -p); do kill -9 -- -$job 2> /dev/null || true; done' EXIT
`

// typed types the blocks of a page whose info is one of kinds.
func typed(t *testing.T, page string, kinds ...string) {
	clone := clone(t)
	steps := stepsOf(t, filepath.Join(clone, page), kinds...)
	var script strings.Builder
	script.WriteString(prologue)
	for _, s := range steps {
		switch s.info {
		case "sh server":
			fmt.Fprintf(&script, "stop\n%s > server.log 2>&1 &\nserver=$!\nready\n", strings.TrimSpace(s.commands))
		case "sh alone":
			script.WriteString("stop\n" + s.commands)
		default:
			script.WriteString(s.commands)
		}
		script.WriteString("printf '\\036'\n")
	}
	script.WriteString("stop\n")
	shell := exec.Command("bash")
	shell.Dir = clone
	shell.Stdin = strings.NewReader(script.String())
	var stdout, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, &stderr
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := shell.Run()
	outputs := strings.Split(stdout.String(), separator)
	for i, s := range steps {
		if i >= len(outputs)-1 {
			t.Fatalf("%s:%d: the commands did not end well: %v\n%s%s",
				page, s.line, err, outputs[len(outputs)-1], &stderr)
		}
		s.loose = true
		if problem := s.compare(outputs[i]); problem != nil {
			t.Errorf("%s:%d: %v\nit printed\n%s", page, s.line, problem, outputs[i])
		}
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", page, err, &stderr)
	}
}

// clone copies what git knows, or would take, to a directory "stint", of which docker-compose takes the name. Its path
// is always the same, since the path is part of what is compiled: what one page has built, the others find in the build
// cache.
func clone(t *testing.T) string {
	t.Helper()
	list, err := exec.Command("git", "-C", "..", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard").Output()
	if err != nil {
		t.Fatalf("listing the repository's files: %v", err)
	}
	parent := filepath.Join(os.TempDir(), fmt.Sprint("stint-pages-", os.Getuid()))
	remove := func() {
		if err := os.RemoveAll(parent); err != nil {
			t.Error(err)
		}
	}
	remove() // a run that was killed has left it
	t.Cleanup(remove)
	dir := filepath.Join(parent, "stint")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		from, to := filepath.Join("..", name), filepath.Join(dir, name)
		info, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue // deleted, and git not told yet
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
