package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/offline/recovery"
)

// A directory with a clock that tests have moved is of no other use: a node would wait for years until its time begins:
// no node opens it, and no backup is made of it. Nor do tests move the clock of a directory that was made without.
func TestADirectoryWhoseClockWasMovedOpensNowhereElse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		config.Dev, config.TestClock = true, true
		n := start(t, config)
		clock := testClockAdmin{n.config.testClock, n.view, n.router}
		if _, err := clock.Advance(t.Context(), 30*24*time.Hour); err != nil {
			t.Fatal(err)
		}
		stop(t, n)
		refused := func(what string, config Config, says string) {
			t.Helper()
			n, err := Start(t.Context(), config)
			if err == nil {
				stop(t, n)
			}
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) ||
				!strings.Contains(err.Error(), config.DataDir) {
				t.Errorf("%s: %v, want %q", what, err, says)
			}
		}
		refused("again", config, "test-clock: ")
		config.TestClock = false
		refused("by a node of developers", config, "data-dir: ")
		config.Dev = false
		refused("by a node", config, "data-dir: ")
		if r, err := recovery.Open(t.Context(),
			recovery.Config{Inputs: []string{config.DataDir}, Now: time.Now(), Answers: nobodyAnswers}); err == nil ||
			!strings.Contains(err.Error(), "--test-clock") {
			t.Errorf("recovered: %v, %v", r, err)
		}

		config.DataDir = filepath.Join(t.TempDir(), "ordinary")
		stop(t, start(t, config))
		config.Dev, config.TestClock = true, true
		refused("of another node", config, "test-clock: ")
		config.TestClock = false
		stop(t, start(t, config))
	})
}

// The state of the cluster says that no limit holds.
func TestAClockThatTestsMoveIsAProblem(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		config.Dev, config.TestClock = true, true
		n := start(t, config)
		defer stop(t, n)
		if told := strings.Join(n.reporter.problems(), "\n"); !strings.Contains(told, "tests move its clock") {
			t.Errorf("the problems are %q", told)
		}
	})
}

// Any client of a port could move the clock, and so whatever else is refused: other nodes, and ports that others reach.
func TestTestsMoveTheClockOfOneNodeOnLoopback(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*Config){
		"test-clock: ":                  func(c *Config) { c.Dev = false },
		"dev: is a node alone":          func(c *Config) { c.BootstrapExpect = 3 },
		"leave --join and":              func(c *Config) { c.Join = []string{"127.0.0.1:7402"} },
		"api-addr: 0.0.0.0:0 can be":    func(c *Config) { c.APIAddr, c.InsecureAPI = "0.0.0.0:0", true },
		"grpc-addr: 192.0.2.1:0 can be": func(c *Config) { c.GRPCAddr, c.InsecureAPI = "192.0.2.1:0", true },
		"redis-addr: [::]:0 can be":     func(c *Config) { c.RedisAddr, c.InsecureAPI = "[::]:0", true },
	} {
		config := testConfig(t)
		config.Dev, config.TestClock = true, true
		change(&config)
		n, err := Start(t.Context(), config)
		if err == nil {
			stop(t, n)
		}
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if _, err := os.Stat(config.DataDir); err == nil {
			t.Errorf("%s: there is a directory", says)
		}
	}
}
