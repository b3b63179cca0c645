//go:build chaos || docker

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/await"
)

// server is a stint process that can be killed and restarted on its data directory.
type server struct {
	t       *testing.T
	binary  string
	dir     string
	address string
	log     bytes.Buffer // of all its processes; read when a test failed

	mu      sync.Mutex
	process *exec.Cmd
}

// binaryDir holds the binary. The first test that needs it creates it.
var binaryDir string

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(binaryDir)
	os.Exit(code)
}

var buildBinary = sync.OnceValues(func() (binary string, err error) {
	if binaryDir, err = os.MkdirTemp("", "stint-chaos"); err != nil {
		return "", err
	}
	binary = filepath.Join(binaryDir, "stint")
	out, err := exec.Command("go", "build", "-tags", "chaos", "-o", binary, "github.com/stint-io/stint/cmd/stint").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
})

// newServer starts a server with the given text as its policies file.
func newServer(t *testing.T, policies string) *server {
	t.Helper()
	s := newStoppedServer(t, policies)
	s.start()
	return s
}

func newStoppedServer(t *testing.T, policies string) *server {
	t.Helper()
	binary, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: binary, dir: t.TempDir(), address: freeAddress(t)}
	if err := os.WriteFile(s.policies(), []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log.String())
		}
	})
	return s
}

func (s *server) policies() string { return filepath.Join(s.dir, "policies.yaml") }

func (s *server) arguments() []string {
	return []string{"serve", "--data-dir", filepath.Join(s.dir, "data"), "--api-addr", s.address,
		"--policies", s.policies()}
}

// start runs the process and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	process := exec.Command(s.binary, s.arguments()...)
	process.Stdout, process.Stderr = &s.log, &s.log
	if err := process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.process = process
	s.mu.Unlock()
	await.Until(s.t, "the server is ready", s.ready)
}

func (s *server) ready() bool {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + s.address + "/readyz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// kill ends the process with SIGKILL and waits until it is gone.
func (s *server) kill() { s.signal(syscall.SIGKILL) }

func (s *server) signal(signal os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	s.process.Process.Signal(signal)
	s.process.Wait()
	s.process = nil
}

// pause is for clients between two tries, and for the time that a fault or a load lasts. What a test can see is awaited.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
