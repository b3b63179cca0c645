package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
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
)

var update = flag.Bool("update", false, "rewrite the expected text in testdata/script")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stint": main})
}

// The transcripts in testdata/script are the manual of the command line: what is typed, what is printed, and the exit
// code. Beside testscript's own commands they use:
//
//	exits CODE stint ARGS...   runs a command that must end with that exit code
//	serve ARGS...              starts a server on a free port, waits until it is ready, and sets STINT_ADDR
//	signal NAME CODE           signals the server and checks its exit code
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(2 * time.Minute), // for a server that should not have started
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[serverKey{}] = &server{}
			logs, err := filepath.Abs("../../../shared/data")
			e.Setenv("LOGS", logs)
			return err
		},
		Condition: func(name string) (bool, error) {
			if name == "logs" {
				_, err := os.Stat("../../../shared/data/openssh_2k.log")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serve": serve, "signal": signalServer,
		},
	})
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
type server struct{ process *exec.Cmd }

type serverKey struct{}

var readyLine = regexp.MustCompile(`^stint is ready at (http://\S+)`)

func serve(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath("stint")
	ts.Check(err)
	process := exec.Command(path, append([]string{"serve", "--api-addr", "127.0.0.1:0", "--peer-addr", "127.0.0.1:0",
		"--gossip-addr", "127.0.0.1:0"}, args...)...)
	process.Dir, process.Stderr = ts.MkAbs("."), os.Stderr
	process.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"))
	stdout, err := process.StdoutPipe()
	ts.Check(err)
	ts.Check(process.Start())
	ts.Defer(func() {
		// A script that failed leaves its server behind; one that stopped it has nothing left to kill.
		if process.ProcessState == nil {
			process.Process.Kill()
			process.Wait()
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	ready := readyLine.FindStringSubmatch(line)
	if ready == nil {
		ts.Fatalf("the server said %q (%v) where its ready line should be", line, err)
	}
	ts.Setenv("STINT_ADDR", ready[1])
	ts.Value(serverKey{}).(*server).process = process
}

func signalServer(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	process := ts.Value(serverKey{}).(*server).process
	ts.Check(process.Process.Signal(signals[args[0]]))
	// What the exit code says is compared below; Wait's error only repeats it.
	_ = process.Wait()
	if code := strconv.Itoa(process.ProcessState.ExitCode()); code != strings.Join(args[1:], "") {
		ts.Fatalf("the server ended with exit code %s, want %s", code, args[1])
	}
}
