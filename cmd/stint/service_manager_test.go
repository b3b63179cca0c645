package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	awaits "github.com/stint-io/stint/internal/testing/await"
)

// A real process tells its service manager that it starts, that it is ready, and that it stops: by a path and by an
// abstract name.
func TestAServiceManagerHearsHowTheNodeIs(t *testing.T) {
	for kind, name := range map[string]string{
		"path":     filepath.Join(t.TempDir(), "notify"),
		"abstract": fmt.Sprintf("@stint-test-%d", os.Getpid()),
	} {
		t.Run(kind, func(t *testing.T) {
			node, messages := startUnderManager(t, name, "--dev")
			for _, want := range []string{"EXTEND_TIMEOUT_USEC=30000000\nSTATUS=starting", "READY=1\nSTATUS=ready\n"} {
				hears(t, messages, want)
			}
			if err := node.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			hears(t, messages, "STOPPING=1\nSTATUS=stopping\n")
		})
	}
}

// A node that finds no other founders reports which ones it waits for, and asks for time.
func TestAServiceManagerHearsWhatAStartWaitsFor(t *testing.T) {
	_, messages := startUnderManager(t, filepath.Join(t.TempDir(), "notify"), "--bootstrap-expect", "3", "--data-dir",
		filepath.Join(t.TempDir(), "data"), "--cluster-key", filepath.Join(t.TempDir(), "cluster.key"))
	hears(t, messages, "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=starting: this node belongs to no cluster yet")
}

// As long as a start lasts it asks again before the time it asked for has passed, and never after it has ended.
func TestALongStartAsksForTimeAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		manager := serviceManager{&said}
		ended := manager.starting(func() error { return errors.New("shard 3 is\n7 entries behind") })
		time.Sleep(time.Hour)
		synctest.Wait()
		ended()
		asked := strings.Count(said.String(), "EXTEND_TIMEOUT_USEC=30000000\n"+
			"STATUS=starting: shard 3 is 7 entries behind\n")
		if least := int(time.Hour / extendBy); asked < 2*least {
			t.Errorf("it asked %d times in an hour", asked)
		}
		time.Sleep(time.Hour)
		if now := strings.Count(said.String(), "EXTEND"); now != asked {
			t.Errorf("it asked %d times after the start had ended", now-asked)
		}
	})
}

// startUnderManager starts a node with a service manager that listens at a name, and returns the manager's messages.
func startUnderManager(t *testing.T, name string, flags ...string) (node *exec.Cmd, messages <-chan string) {
	t.Helper()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 100)
	var listening sync.WaitGroup
	listening.Go(func() {
		for message := make([]byte, 4096); ; {
			n, err := manager.Read(message)
			if err != nil {
				return
			}
			heard <- string(message[:n])
		}
	})
	path, err := exec.LookPath("stint")
	if err != nil {
		t.Fatal(err)
	}
	free := "127.0.0.1:0"
	node = exec.Command(path, append([]string{"serve", "--api-addr", free, "--peer-addr", free, "--gossip-addr", free},
		flags...)...)
	node.Env = append(os.Environ(), "NOTIFY_SOCKET="+name)
	var log safeBuffer
	node.Stderr = &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		node.Process.Kill()
		node.Wait()
		manager.Close()
		listening.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return node, heard
}

// hears waits for a message that begins so.
func hears(t *testing.T, messages <-chan string, want string) {
	t.Helper()
	for {
		message := awaits.Receive(t, want, messages)
		if strings.HasPrefix(message, want) {
			return
		}
		if !strings.HasPrefix(message, "EXTEND_TIMEOUT_USEC=") {
			t.Fatalf("it says %q before %q", message, want)
		}
	}
}
