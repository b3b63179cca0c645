package examples

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

// The pages of docs/from are correct, as the recipes are. The policies that a page shows, in blocks "yaml", are in the
// file beside it, and the node starts with that file. The JavaScript of a page, in blocks "js", is in a program beside
// it, which the page's commands run. What a page shows of a limiter that is to be left is in blocks of other kinds.
func TestPagesForThoseWhoComeFromElsewhere(t *testing.T) {
	needLinux(t)
	for _, tool := range []string{"sh", "curl", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the pages are typed into a shell: %v", err)
		}
	}
	pages, err := filepath.Glob("../docs/from/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			file := strings.TrimSuffix(page, ".md") + ".yaml"
			policies := text(t, file)
			for _, block := range blocksOf(text(t, page), "yaml") {
				if !strings.Contains(policies, block) {
					t.Errorf("%s shows policies that are not in %s:\n%s", page, file, block)
				}
			}
			program := strings.TrimSuffix(page, ".md") + ".mjs"
			for _, block := range blocksOf(text(t, page), "js") {
				if !strings.Contains(text(t, program), block) {
					t.Errorf("%s shows code that is not in %s:\n%s", page, program, block)
				}
			}
			as := newcomer(t, file)
			if _, err := os.Stat(program); err == nil {
				giveNode(t, as.dir, program)
			}
			follow(t, page, as)
		})
	}
}

// giveNode gives a reader in dir the program of a page and what it imports: the client as npm would install it,
// Debian's Express, and stand-ins for packages that cannot be had here.
func giveNode(t *testing.T, dir, program string) {
	t.Helper()
	const express = "/usr/share/nodejs/express"
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("the programs of the page need Node 20.19 or later: %v", err)
	}
	if _, err := os.Stat(express); err != nil {
		t.Skipf("the programs of the page need Debian's node-express: %v", err)
	}
	install := func(from, name string) {
		from, err := filepath.Abs(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, "node_modules", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	install("../client/js", "@stint/client")
	install(express, "express")
	install("testdata/standins/express-rate-limit", "express-rate-limit")
	install("testdata/standins/@homegrower-club/stoma", "@homegrower-club/stoma")
	for _, file := range []string{program, "../docs/from/serve.mjs"} {
		if err := os.WriteFile(filepath.Join(dir, "docs", "from", filepath.Base(file)), []byte(text(t, file)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newcomer starts a node that also serves the Redis protocol, and runs the commands in a directory that holds only the
// policies.
func newcomer(t *testing.T, policies string) reader {
	t.Helper()
	node := start(t, testcluster.Options{Nodes: 1, Redis: true}, policies)
	host, port, err := net.SplitHostPort(node.RedisAddr(0))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "docs", "from", filepath.Base(policies))
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text(t, policies)), 0o600); err != nil {
		t.Fatal(err)
	}
	return reader{dir, node.Addr(0), strings.NewReplacer("127.0.0.1:7400",
		node.Addr(0), "127.0.0.1:8787", node.Beside(8787), "./stint ", binary(t)+" ", "redis-cli -p 6380",
		"redis-cli -h "+host+" -p "+port)}
}

func text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocksOf lists the blocks of one kind on a page.
func blocksOf(page, kind string) (blocks []string) {
	for _, part := range strings.Split(page, "\n```"+kind+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block)
	}
	return blocks
}
