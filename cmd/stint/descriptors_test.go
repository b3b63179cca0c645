package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	awaits "github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

// TestStrangersConnectionsDoNotEndANode starts a node with few descriptors, and strangers take all connections that
// they get on every port. The log must still find descriptors for its files; otherwise the process ends with status 75.
func TestStrangersConnectionsDoNotEndANode(t *testing.T) {
	path, err := exec.LookPath("stint")
	if err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	ports, ended, err := startWithFewDescriptors(t, path, &log)
	// another process took a port that was free
	for err != nil && strings.Contains(log.String(), "address already in use") {
		log = safeBuffer{}
		ports, ended, err = startWithFewDescriptors(t, path, &log)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}

	client := dialRedis(t, ports[2])
	count := 0
	spend := func(times int) {
		t.Helper()
		for range times {
			count++
			if got := client.ask(t, "INCR counted"); got != fmt.Sprintf(":%d", count) {
				t.Fatalf("%q instead of %d\n%s", got, count, log.String())
			}
		}
	}
	spend(10)
	var strangers []net.Conn
	defer func() {
		for _, c := range strangers {
			c.Close()
		}
	}()
	come := func(n int, port string) (last net.Conn) {
		t.Helper()
		for range n {
			if last, err = net.Dial("tcp", port); err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			strangers = append(strangers, last)
		}
		return last
	}
	for _, port := range ports {
		come(300, port) // more than there are descriptors
	}
	spend(10)
	for i, want := range map[int]string{0: "HTTP/1.1 503 ", 2: "-ERR max number of clients reached\r\n"} {
		// Silent connections are closed after a while, so the port is filled again.
		for patience := 50 * time.Millisecond; ; patience *= 2 {
			c := come(100, ports[i])
			c.SetDeadline(time.Now().Add(patience))
			if i == 0 {
				io.WriteString(c, "G") // a refusal over HTTP waits for the request
			}
			heard, _ := io.ReadAll(c)
			if strings.HasPrefix(string(heard), want) {
				break
			}
			if len(heard) > 0 || patience > awaits.Patience {
				t.Errorf("who does not fit hears %q", heard)
				break
			}
			spend(1) // who is silent for long makes room for others
		}
	}
	// The log needs new files: it writes more than its open files hold.
	value := strings.Repeat("k", 500)
	for i := range 16 {
		var pipeline strings.Builder
		for j := range 500 {
			fmt.Fprintf(&pipeline, "SET %s%d:%d 1\r\n", value, i, j)
		}
		client.send(t, pipeline.String())
		for range 500 {
			if got := client.reply(t); got != "+OK" {
				t.Fatalf("%q\n%s", got, log.String())
			}
		}
	}
	spend(10)
	for _, c := range strangers {
		c.Close()
	}
	strangers = nil
	awaits.Until(t, "the node is ready again", func() bool {
		response, err := http.Get("http://" + ports[0] + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, &log)
	spend(10)
	select {
	case err := <-ended:
		t.Fatalf("the node ended: %v\n%s", err, log.String())
	default:
	}
	if lines := bytes.Count([]byte(log.String()), []byte("\n")); lines > 60 {
		t.Errorf("1,500 strangers left %d lines in the log", lines)
	}
}

// startWithFewDescriptors starts a node on five ports: for the API, gRPC, Redis, peers and gossip.
func startWithFewDescriptors(
	t *testing.T, path string, log *safeBuffer,
) (ports []string, ended <-chan error, err error) {
	t.Helper()
	dir, err := os.MkdirTemp(testcluster.InMemory(), "stint-test-")
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ports = freePorts(t, 5)
	process := exec.Command("sh", "-c", `ulimit -n 256; exec "$@"`, "sh", path, "serve", "--data-dir",
		filepath.Join(dir, "data"), "--policies", "../../policy/dev.yaml", "--api-addr", ports[0], "--grpc-addr",
		ports[1], "--redis-addr", ports[2], "--peer-addr", ports[3], "--gossip-addr", ports[4], "--cluster-key",
		filepath.Join(t.TempDir(), "cluster.key"))
	process.Stderr = log
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := process.Start(); err != nil {
		return nil, nil, err
	}
	gone, result := make(chan struct{}), make(chan error, 1)
	t.Cleanup(func() { process.Process.Kill(); <-gone })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		defer close(gone)
		result <- process.Wait()
	}()
	if !readyLine.MatchString(line) {
		if err == nil {
			err = fmt.Errorf("it said %q where its ready line should be", line)
		}
		<-gone // its log is complete
	}
	return ports, result, err
}

func TestANodeRefusesToLiveOnTooFewDescriptors(t *testing.T) {
	path, err := exec.LookPath("stint")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), awaits.Patience) // for a node that starts
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", `ulimit -n 100; exec "$0" serve --dev --api-addr 127.0.0.1:0`, path)
	text, err := command.CombinedOutput()
	if command.ProcessState.ExitCode() != exitUsage ||
		!strings.Contains(string(text), "may open 100 files, and needs 256") {
		t.Errorf("%v: %s", err, text)
	}
}

// freePorts returns addresses without a listener.
func freePorts(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// redisClient is a connection that speaks the Redis protocol.
type redisClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialRedis(t *testing.T, addr string) redisClient {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return redisClient{c, bufio.NewReader(c)}
}

func (c redisClient) send(t *testing.T, text string) {
	t.Helper()
	c.conn.SetDeadline(time.Now().Add(awaits.Patience))
	if _, err := io.WriteString(c.conn, text); err != nil {
		t.Fatal(err)
	}
}

func (c redisClient) reply(t *testing.T) string {
	t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(line, "\r\n")
}

func (c redisClient) ask(t *testing.T, command string) string {
	t.Helper()
	c.send(t, command+"\r\n")
	return c.reply(t)
}

// safeBuffer collects the output of a process while a test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *safeBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }
