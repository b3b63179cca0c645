//go:build spellings

package gate

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// server is a program that serves the page at a port, and the names of hosts under which it does so in different ways.
type server struct {
	hosts   []string
	command func(dir, port string) []string
}

var servers = []server{
	{[]string{"starlette"}, func(dir, port string) []string { return []string{"/usr/bin/python3", "asgi.py", port} }},
	{[]string{"flask"}, func(dir, port string) []string { return []string{"/usr/bin/python3", "wsgi.py", port} }},
	{[]string{"express"}, func(dir, port string) []string { return []string{"node", "express.js", port} }},
	{[]string{"php-regexp", "php-trim"}, func(dir, port string) []string {
		return []string{"php", "-S", "127.0.0.1:" + port, "router.php"}
	}},
	{[]string{"nginx-exact", "nginx-regexp", "nginx-nocase"}, func(dir, port string) []string {
		return []string{"nginx", "-p", dir, "-c", "nginx.conf", "-e", "stderr"}
	}},
}

// TestTheSpellingsThatServersTake asks real servers for the page in every spelling. `make spellings` runs it.
func TestTheSpellingsThatServersTake(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	found, counts := map[string][]string{}, map[string]int{}
	for _, s := range servers {
		address := s.start(t)
		for _, host := range s.hosts {
			for _, spelling := range spellings(t) {
				if serves(t, address, host, spelling) {
					found[spelling] = append(found[spelling], host)
					counts[host]++
				}
			}
			if counts[host] == 0 {
				t.Fatalf("%s does not serve the page", host)
			}
		}
	}
	t.Logf("so many spellings are the page: %v", counts)
	gates := ways(t)
	var record bytes.Buffer
	for _, spelling := range spellings(t) {
		names := strings.Join(found[spelling], " ")
		if names == "" {
			continue
		}
		fmt.Fprintf(&record, "%+q\t%s\n", spelling, names)
		if where := free(gates, spelling); len(where) > 0 {
			t.Errorf("%q is the page for %s, and free with %s", spelling, names, strings.Join(where, ", "))
		}
	}
	if before, err := os.ReadFile(takenFile); err != nil || !bytes.Equal(before, record.Bytes()) {
		t.Errorf("the servers take other spellings than %s says, which is now written: look at it and commit it",
			takenFile)
		if err := os.WriteFile(takenFile, record.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// start runs the server until the test ends, and returns its address.
func (s *server) start(t *testing.T) (address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/servers")); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "nginx.conf")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, bytes.ReplaceAll(text, []byte("PORT"), []byte(port)), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := s.command(dir, port)
	command := exec.Command(arguments[0], arguments[1:]...)
	var output bytes.Buffer // read after the process has ended
	command.Dir, command.Stdout, command.Stderr = dir, &output, &output
	command.Env = append(os.Environ(), "NODE_PATH=/usr/share/nodejs")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		<-ended
		if t.Failed() {
			t.Logf("%s said\n%s", s.hosts[0], output.String()[max(0, output.Len()-4<<10):])
		}
	})
	await.Until(t, s.hosts[0]+" listens", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended", s.hosts[0])
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return address
}

// serves reports whether the answer to a spelling is the page. A redirect is none: its target is asked for at the gate
// again.
func serves(t *testing.T, address, host, spelling string) bool {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", spelling, host)
	answer, _ := io.ReadAll(conn) // the server may end a connection in any way
	return bytes.HasSuffix(bytes.TrimRight(answer, "\r\n"), []byte("the page")) ||
		slices.Contains(strings.Split(string(answer), "\r\n"), "the page")
}
