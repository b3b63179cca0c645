package testcluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// builds has the path of each binary that this process has requested, by its tags.
var builds = struct {
	sync.Mutex
	paths map[string]string
}{paths: map[string]string{}}

// Binary returns the path of the program stint, for tests: the one named by STINT_BINARY, or one with these build tags,
// built from the current source. The binary lies in Go's build cache, so that all packages of `go test ./...` use one:
// linking it takes seconds.
func Binary(tags ...string) (path string, err error) {
	if path := os.Getenv("STINT_BINARY"); path != "" && len(tags) == 0 {
		return path, nil
	}
	key := strings.Join(tags, ",")
	builds.Lock()
	defer builds.Unlock()
	if path := builds.paths[key]; path != "" {
		return path, nil
	}
	// The tests of other packages wait, instead of linking the same at the same time.
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprint("stint-build-", os.Getuid())),
		os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("testcluster: waiting for another build: %w", err)
	}
	for range 2 { // the run that links the binary executes it in its build directory, and the next one in the cache
		if path, err = locate(key); err != nil {
			return "", err
		}
		if _, err = os.Stat(path); err == nil {
			builds.paths[key] = path
			return path, nil
		}
	}
	return "", err
}

// locate links the binary unless it is in the build cache, and returns the path at which go run would execute it.
func locate(tags string) (string, error) {
	command := exec.Command("go", "run", "-tags", tags, "-exec", "echo", "github.com/stint-io/stint/cmd/stint")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var said bytes.Buffer
	command.Stderr = &said
	path, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("testcluster: go run: %w\n%s", err, &said)
	}
	return strings.TrimSpace(string(path)), nil
}
