//go:build docker

package chaos

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestComposeCountsThroughAKill: docker-compose.yml as it stands, on a real engine, with the image of `make image`.
// Policy login admits 5 in 15 minutes: 3 before the container is killed, 2 after, and no more.
func TestComposeCountsThroughAKill(t *testing.T) {
	compose := newCompose(t)
	compose.run("up", "-d", "--no-build")
	compose.awaitReady()
	c := newClient(compose.address)
	spend := func(want answer) {
		t.Helper()
		if got, err := c.check("login", "user:42", ""); got != want || err != nil {
			t.Fatalf("got %v (%v), want %v", got, err, want)
		}
	}
	for range 3 {
		spend(admitted)
	}
	compose.run("kill", "-s", "SIGKILL")
	compose.run("up", "-d", "--no-build")
	compose.awaitReady()
	spend(admitted)
	spend(admitted)
	spend(denied)
	compose.run("stop") // SIGTERM: drains and exits 0
	if out := compose.run("ps", "-a"); !strings.Contains(out, "Exit 0") && !strings.Contains(out, "Exited (0)") {
		t.Errorf("after a stop:\n%s", out)
	}
}

// compose runs whichever Compose answers, on a project and a port of the test's own.
type compose struct {
	t       *testing.T
	command []string
	address string
	env     []string
}

func newCompose(t *testing.T) *compose {
	t.Helper()
	c := &compose{t: t, address: freeAddress(t)}
	_, port, _ := strings.Cut(c.address, ":")
	c.env = append(os.Environ(), "STINT_PORT="+port, "COMPOSE_PROJECT_NAME=stint-test-"+port)
	for _, command := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.Command(command[0], append(command[1:], "version")...).Run() == nil {
			c.command = command
			t.Cleanup(func() { c.run("down", "-v") })
			return c
		}
	}
	t.Fatal("neither `docker compose` nor `docker-compose` answers")
	return nil
}

func (c *compose) run(arguments ...string) string {
	c.t.Helper()
	all := append(append(c.command[1:len(c.command):len(c.command)], "-f", "../../docker-compose.yml"), arguments...)
	command := exec.Command(c.command[0], all...)
	command.Env = c.env
	out, err := command.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v: %v\n%s", command.Args, err, out)
	}
	return string(out)
}

func (c *compose) awaitReady() {
	c.t.Helper()
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late); {
		response, err := http.Get(fmt.Sprintf("http://%s/readyz", c.address))
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond) // a real container: there is nothing to wait on but the clock
	}
	c.t.Fatalf("not ready within 30 s:\n%s", c.run("logs"))
}
