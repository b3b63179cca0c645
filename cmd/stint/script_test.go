package main

import (
	"bufio"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	awaits "github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcert"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

var update = flag.Bool("update", false, "rewrite the expected text in testdata/script")

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8") // by default: the scripts mostly wait for their servers
	testscript.Main(m, map[string]func(){"stint": main})
}

// The transcripts in testdata/script are the manual of the command line: the input, the output and the exit code.
// Besides testscript's own commands they use:
//
//	exits CODE stint ARGS...   runs a command that must end with this exit code
//	serve ARGS...              starts a server on free ports, waits until it is ready, and sets STINT_ADDR and HOSTPORT
//	edge ARGS...               starts an edge beside the server, waits until it is ready, and sets EDGE
//	log REGEXP                 looks for a line in the server's log so far; ! log: there must be none
//	halfcall                   begins a call to the server and does not finish it
//	remember NAME              sets a variable to the output of the last command
//	signal NAME... CODE        signals the server, further times when it no longer listens, and checks its exit code
//
// $DEPLOY is the directory deploy. $CERTS has certificates of one authority, in directories: server, other (for
// stint.example.com), role and peer.
func TestScripts(t *testing.T) {
	certificates := writeCertificates(t)
	t.Setenv("GOTMPDIR", testcluster.InMemory()) // where testscript makes its directories
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		// for a server that must not start; go test itself ends after ten
		Deadline:           time.Now().Add(8 * time.Minute),
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Values[serverKey{}] = &server{}
			logs, err := filepath.Abs("../../../shared/data")
			e.Setenv("LOGS", logs)
			e.Setenv("CERTS", certificates)
			deploy, failed := filepath.Abs("../../deploy")
			e.Setenv("DEPLOY", deploy)
			return errors.Join(err, failed)
		},
		Condition: func(name string) (bool, error) {
			if name == "logs" {
				_, err := os.Stat("../../../shared/data/openssh_2k.log")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serve": serve, "edge": edge, "log": log, "halfcall": halfCall, "signal": signalServer,
			"remember": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
			},
		},
	})
}

// writeCertificates makes the certificates of the scripts and returns their directory.
func writeCertificates(t *testing.T) string {
	t.Helper()
	dir, ca := t.TempDir(), testcert.New(t)
	for name, change := range map[string]func(*x509.Certificate){
		"server": func(*x509.Certificate) {},
		"other":  testcert.Hosts("stint.example.com"),
		"role":   testcert.URIs("stint://role/billing"),
		"peer":   testcert.URIs("stint://peer/node-1"),
	} {
		one := filepath.Join(dir, name)
		if err := os.Mkdir(one, 0o700); err != nil {
			t.Fatal(err)
		}
		ca.Write(one, change)
	}
	return dir
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// server is the one server that a script may have.
type server struct {
	process *exec.Cmd
	log     string // path of the log file
}

type serverKey struct{}

var readyLine = regexp.MustCompile(`^stint is ready at (https?://\S+)`)

func serve(ts *testscript.TestScript, _ bool, args []string) {
	started, url := startReady(ts, append([]string{"serve", "--api-addr", "127.0.0.1:0", "--peer-addr", "127.0.0.1:0",
		"--gossip-addr", "127.0.0.1:0"}, args...)...)
	ts.Setenv("STINT_ADDR", url)
	ts.Setenv("HOSTPORT", address(ts))
	*ts.Value(serverKey{}).(*server) = started
}

func edge(ts *testscript.TestScript, _ bool, args []string) {
	started, url := startReady(ts, append([]string{"edge", "--api-addr", "127.0.0.1:0"}, args...)...)
	ts.Setenv("EDGE", url)
	ts.Setenv("EDGELOG", started.log)
}

// startReady starts a command that serves, waits until it says that it is ready, and returns its address.
func startReady(ts *testscript.TestScript, args ...string) (started server, url string) {
	path, err := exec.LookPath("stint")
	ts.Check(err)
	process := exec.Command(path, args...)
	logFile, err := os.CreateTemp(ts.MkAbs("."), "log-")
	ts.Check(err)
	defer logFile.Close()
	process.Dir, process.Stderr = ts.MkAbs("."), logFile
	process.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"))
	stdout, err := process.StdoutPipe()
	ts.Check(err)
	ts.Check(process.Start())
	ts.Defer(func() {
		// A failed script leaves its server behind; a script that stopped it leaves nothing to kill.
		if process.ProcessState == nil {
			process.Process.Kill()
			process.Wait()
		}
	})
	said := bufio.NewReader(stdout)
	line, err := said.ReadString('\n')
	ready := readyLine.FindStringSubmatch(line)
	if ready == nil {
		ts.Fatalf("the server said %q (%v) where its ready line should be", line, err)
	}
	return server{process, logFile.Name()}, ready[1]
}

func log(ts *testscript.TestScript, negated bool, args []string) {
	text := ts.ReadFile(ts.Value(serverKey{}).(*server).log)
	if regexp.MustCompile(args[0]).MatchString(text) == negated {
		ts.Fatalf("the server's log:\n%s", text)
	}
}

func halfCall(ts *testscript.TestScript, _ bool, _ []string) {
	conn, err := net.Dial("tcp", address(ts))
	ts.Check(err)
	ts.Defer(func() { conn.Close() })
	_, err = io.WriteString(conn, "POST /stint.v1.LimitService/Check HTTP/1.1\r\nHost: stint\r\n"+
		"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
	ts.Check(err)
	// The server asks for the body once it serves the call: from here on it has something to drain.
	_, err = bufio.NewReader(conn).ReadString('\n')
	ts.Check(err)
}

func address(ts *testscript.TestScript) string {
	_, hostPort, _ := strings.Cut(ts.Getenv("STINT_ADDR"), "://")
	return hostPort
}

func signalServer(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	process := ts.Value(serverKey{}).(*server).process
	names, want := args[:len(args)-1], args[len(args)-1]
	for i, name := range names {
		if i > 0 {
			awaitDeaf(ts)
		}
		ts.Check(process.Process.Signal(signals[name]))
	}
	// The exit code is compared below; Wait's error only repeats it.
	_ = process.Wait()
	if code := strconv.Itoa(process.ProcessState.ExitCode()); code != want {
		ts.Fatalf("the server ended with exit code %s, want %s", code, want)
	}
}

// awaitDeaf waits until the server no longer listens.
func awaitDeaf(ts *testscript.TestScript) {
	awaits.Until(scripted{ts}, "the server no longer listens", func() bool {
		conn, err := net.Dial("tcp", address(ts))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// scripted is a script as a test.
type scripted struct{ *testscript.TestScript }

// Helper implements awaits.TB.
func (s scripted) Helper() {}

// Fatal implements awaits.TB.
func (s scripted) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }
