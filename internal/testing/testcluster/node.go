package testcluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/stint-io/stint/internal/sleep"
)

// node is one place in the cluster: its addresses and its directory stay, its processes come and go.
type node struct {
	name, ip, announced, dir string // announced is where other nodes reach it: the mesh, or ip if there is none

	mu      sync.Mutex
	binary  string   // "" means that of the options
	process *process // the newest process; nil if never started
}

func (n *node) addr() string  { return hostPort(n.ip, apiPort) }
func (n *node) data() string  { return filepath.Join(n.dir, "data") }
func (n *node) log() string   { return filepath.Join(n.dir, "log") }
func (n *node) clock() string { return filepath.Join(n.dir, "clock") }

// Running reports whether a node's process exists, even if it is paused.
func (c *Cluster) Running(i int) bool { return c.node(i).current().running() }

// UseBinary makes later starts of a node use another binary: an older or a newer release.
func (c *Cluster) UseBinary(i int, binary string) {
	n := c.node(i)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.binary = binary
}

// Restart starts a node that ended or never ran, on its existing directory. It does not wait until the node is ready.
func (c *Cluster) Restart(i int) error { return c.start(i, "") }

// RestartFailing starts a node under strace, which makes its fdatasync calls fail as in "error=EIO:when=60+" or slow as
// in "delay_enter=300000:when=20+" (microseconds). The counts apply to each thread separately.
func (c *Cluster) RestartFailing(i int, inject string) error { return c.start(i, inject) }

// Kill ends a node with SIGKILL and waits until it is gone.
func (c *Cluster) Kill(i int) error {
	l := c.node(i).current()
	if !l.running() {
		return fmt.Errorf("testcluster: %s does not run", c.Name(i))
	}
	l.asked.Store(true)
	err := syscall.Kill(-l.command.Process.Pid, syscall.SIGKILL)
	<-l.ended
	return err
}

// Terminate stops a node with SIGTERM and waits for its end; any exit code but 0 is an error. If ctx ends first, the
// node still runs.
func (c *Cluster) Terminate(ctx context.Context, i int) error {
	l := c.node(i).current()
	if !l.running() {
		return fmt.Errorf("testcluster: %s does not run", c.Name(i))
	}
	l.asked.Store(true)
	if err := syscall.Kill(l.server(), syscall.SIGTERM); err != nil {
		return err
	}
	code, err := c.AwaitExit(ctx, i)
	if err == nil && code != 0 {
		err = fmt.Errorf("testcluster: %s ended with %s after SIGTERM", c.Name(i), l.command.ProcessState)
	}
	return err
}

// AwaitExit waits for a node's end and returns its exit code, or -1 if a signal ended it.
func (c *Cluster) AwaitExit(ctx context.Context, i int) (int, error) {
	l := c.node(i).current()
	if l == nil {
		return 0, fmt.Errorf("testcluster: %s never ran", c.Name(i))
	}
	select {
	case <-l.ended:
		return l.command.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("testcluster: %s did not end: %w", c.Name(i), ctx.Err())
	}
}

// MayEnd allows a node to end from here on: Surprises will not report it.
func (c *Cluster) MayEnd(i int) { c.node(i).current().asked.Store(true) }

// Pause stops a node with SIGSTOP, and returns when every thread of it has stopped: the signal takes effect only later,
// and a thread on another core runs on until then.
func (c *Cluster) Pause(i int) error {
	if err := c.signal(i, syscall.SIGSTOP); err != nil {
		return err
	}
	server := c.node(i).current().server()
	for began := time.Now(); !standsStill(server); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			return fmt.Errorf("testcluster: %s still runs %v after SIGSTOP", c.Name(i), patience)
		}
	}
	return nil
}

// Resume lets a paused node continue.
func (c *Cluster) Resume(i int) error { return c.signal(i, syscall.SIGCONT) }

// signal signals all processes of a node: under strace there are two.
func (c *Cluster) signal(i int, signal syscall.Signal) error {
	l := c.node(i).current()
	if !l.running() {
		return fmt.Errorf("testcluster: %s does not run", c.Name(i))
	}
	return syscall.Kill(-l.command.Process.Pid, signal)
}

// Surprises names every node that ended although the test cluster did not end it.
func (c *Cluster) Surprises() (all []string) {
	for i := range c.Len() {
		l := c.node(i).current()
		if l != nil && !l.running() && !l.asked.Load() {
			all = append(all, fmt.Sprintf("%s ended by itself: %s", c.Name(i), l.command.ProcessState))
		}
	}
	return all
}

// AwaitReady waits until the nodes answer /readyz with 200. Without arguments it waits for all that run.
func (c *Cluster) AwaitReady(ctx context.Context, nodes ...int) error {
	if len(nodes) == 0 {
		for i := range c.Len() {
			if c.Running(i) {
				nodes = append(nodes, i)
			}
		}
	}
	for _, i := range nodes {
		if err := c.node(i).awaitReady(ctx, c.options.TLS); err != nil {
			return fmt.Errorf("testcluster: %s is not ready: %w", c.Name(i), err)
		}
	}
	return nil
}

const readyEvery = 20 * time.Millisecond

func (n *node) awaitReady(ctx context.Context, secure *tls.Config) error {
	client := &http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}}
	scheme := "http://"
	if secure != nil {
		scheme = "https://"
	}
	said := errors.New("nobody answered")
	for {
		status, err := readiness(ctx, client, scheme+n.addr())
		switch {
		case err == nil && status == http.StatusOK:
			return nil
		case !n.current().running():
			return errEnded
		case err == nil:
			said = fmt.Errorf("/readyz answers %d", status)
		}
		if !sleep.For(ctx, readyEvery) { // polls: a real process gives no other signal
			return fmt.Errorf("%w: %w", ctx.Err(), said)
		}
	}
}

func readiness(ctx context.Context, client *http.Client, address string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

// errEnded is the reason why a node will never answer.
var errEnded = errors.New("it has ended")
