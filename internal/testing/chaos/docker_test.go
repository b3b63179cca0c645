//go:build docker

package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/testing/await"
)

// TestComposeClusterCountsWhileItsNodesDie runs docker-compose.yml unchanged, on a real engine, with the image of `make
// image`. Policy login admits 5 in 15 minutes, whichever node is asked and whatever happens to the nodes: 5 are
// admitted in all, with a fault between each two.
func TestComposeClusterCountsWhileItsNodesDie(t *testing.T) {
	compose := newCompose(t)
	compose.run("up", "-d", "--no-build")
	compose.awaitReady(0, 1, 2)
	spend := func(node int, want answer) {
		t.Helper()
		if got := compose.spend(node, "user:42"); got != want {
			t.Fatalf("node %d: got %v, want %v", node+1, got, want)
		}
	}
	spend(0, admitted)

	compose.run("kill", "-s", "SIGKILL", "stint1")
	spend(1, admitted)
	compose.run("up", "-d", "--no-build")
	compose.awaitReady(0, 1, 2)

	container, network := compose.container("stint2"), compose.network()
	engine(t, "network", "disconnect", network, container)
	spend(2, admitted)
	engine(t, "network", "connect", "--alias", "stint", "--alias", "stint2", network, container)
	compose.awaitReady(0, 1, 2)

	for i := range 3 {
		compose.run("restart", "-t", "20", fmt.Sprint("stint", i+1))
		compose.awaitReady(0, 1, 2)
	}
	spend(0, admitted)
	spend(1, admitted)
	for node := range 3 {
		spend(node, denied)
	}
	compose.run("stop") // SIGTERM: drains and exits with 0
	out := compose.run("ps", "-a")
	if strings.Count(out, "Exit 0")+strings.Count(out, "Exited (0)") != 4 { // with the one that made the key
		t.Errorf("after a stop:\n%s", out)
	}
}

// spend asks one node until it answers: a request may meet an election.
func (c *compose) spend(node int, key string) answer {
	c.t.Helper()
	client := newClient(c.addresses[node])
	id := fmt.Sprint(c.project, "-", c.spent)
	c.spent++
	var got answer
	var err error
	await.Until(c.t, fmt.Sprintf("node %d answers", node+1), func() bool {
		got, err = client.check("login", key, id)
		return err == nil && (got == admitted || got == denied)
	}, &err, logsOf{c})
	return got
}

// compose runs the Compose command that is installed, with a project and ports of the test's own.
type compose struct {
	t         *testing.T
	command   []string
	project   string
	addresses [3]string // of the nodes' APIs
	env       []string
	spent     int // requests, each with its own id
}

func newCompose(t *testing.T) *compose {
	t.Helper()
	c := &compose{t: t, env: os.Environ()}
	for i := range c.addresses {
		port := freePort(t)
		c.addresses[i] = "127.0.0.1:" + port
		c.env = append(c.env, fmt.Sprintf("STINT_PORT%d=%s", i+1, port))
		c.project = "stint-test-" + port
	}
	c.env = append(c.env, "COMPOSE_PROJECT_NAME="+c.project)
	c.command = composeCommand(t)
	t.Cleanup(func() { c.run("down", "-v") })
	return c
}

// composeCommand finds the Compose command that is installed.
func composeCommand(t *testing.T) []string {
	t.Helper()
	for _, command := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.Command(command[0], append(command[1:], "version")...).Run() == nil {
			return command
		}
	}
	t.Fatal("neither `docker compose` nor `docker-compose` answers")
	return nil
}

func (c *compose) run(arguments ...string) string {
	c.t.Helper()
	all := append(append(c.command[1:len(c.command):len(c.command)], "-f", "../../../docker-compose.yml"), arguments...)
	command := exec.Command(c.command[0], all...)
	command.Env = c.env
	out, err := command.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v: %v\n%s", command.Args, err, out)
	}
	return string(out)
}

func (c *compose) container(service string) string {
	return strings.TrimSpace(c.run("ps", "-q", service))
}

func (c *compose) network() string {
	return engine(c.t, "network", "ls", "-q", "--filter", "label=com.docker.compose.project="+c.project)
}

func (c *compose) awaitReady(nodes ...int) {
	c.t.Helper()
	for _, node := range nodes {
		c.awaitNode(node)
	}
}

func (c *compose) awaitNode(node int) {
	c.t.Helper()
	await.Until(c.t, fmt.Sprintf("node %d is ready", node+1), func() bool {
		response, err := http.Get(fmt.Sprintf("http://%s/readyz", c.addresses[node]))
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, logsOf{c})
}

// logsOf says what the containers said last.
type logsOf struct{ *compose }

// String implements fmt.Stringer.
func (l logsOf) String() string { return l.run("logs", "--tail", "100") }

// freePort returns a port without a listener. It is below those that the system gives to connections: one of them could
// have it by the time that the engine listens.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := fmt.Sprint(10_000 + rand.IntN(20_000))
		if listener, err := net.Listen("tcp", ":"+port); err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
