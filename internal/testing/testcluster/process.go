package testcluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// process is one process of a node.
type process struct {
	command *exec.Cmd
	traced  bool          // command is strace, and the node its child
	ended   chan struct{} // closed when the process is gone
	asked   atomic.Bool   // the test cluster ended it, or made its disk fail
}

// current returns the newest process, running or not.
func (n *node) current() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

func (l *process) running() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// server returns the process id of the node itself.
func (l *process) server() int {
	if l.traced {
		if children := childrenOf(l.command.Process.Pid); len(children) > 0 {
			return children[0]
		}
	}
	return l.command.Process.Pid
}

// start starts a process of a node that has none, with inject under strace: see RestartFailing. Such a process may end
// by itself.
func (c *Cluster) start(i int, inject string) error {
	n := c.node(i)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process.running() {
		return fmt.Errorf("testcluster: %s already runs", n.name)
	}
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(cmp.Or(n.binary, c.options.Binary), c.arguments(n)...)
	if inject != "" {
		command = exec.Command("strace", append([]string{"-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e",
			"trace=fdatasync", "-e", "inject=fdatasync:" + inject}, command.Args...)...)
	}
	command.Stdout, command.Stderr = log, log
	command.Env = append(environment(), "STINT_CHAOS_CLOCK="+n.clock())
	command.SysProcAttr = attributes() // its own group: signals reach all of it, and Ctrl-C does not
	fmt.Fprintf(log, "--- %s starts %s\n", time.Now().Format(time.StampMilli), inject)
	if err := command.Start(); err != nil {
		return fmt.Errorf("testcluster: starting %s: %w", n.name, err)
	}
	l := &process{command: command, traced: inject != "", ended: make(chan struct{})}
	l.asked.Store(inject != "")
	n.process = l
	go func() {
		_ = command.Wait() // the exit status is read from the process state
		close(l.ended)
	}()
	return nil
}

// environment returns the variables of this process, except those that a node would take for flags.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "STINT_") })
}

// Twin is the command of a second process under the id of a node, which ends with ctx at the latest. Its data is in
// dir/data, and it listens where no node does: at Beside.
func Twin(ctx context.Context, c *Cluster, i int, dir string) *exec.Cmd {
	ip := c.subnet.ip(beside)
	command := exec.CommandContext(ctx, c.options.Binary,
		c.arguments(&node{name: c.Name(i), ip: ip, announced: ip, dir: dir})...)
	command.Env = environment()
	command.SysProcAttr = attributes()
	return command
}

func (c *Cluster) arguments(n *node) []string {
	o := &c.options
	args := []string{"serve", "--node-id", n.name, "--data-dir", n.data(), "--api-addr", hostPort(n.ip, apiPort),
		"--peer-addr", hostPort(n.ip, peerPort), "--gossip-addr", hostPort(n.ip, gossipPort), "--cluster-key", o.key()}
	if o.Redis {
		args = append(args, "--redis-addr", hostPort(n.ip, redisPort))
	}
	if o.Nodes > 1 {
		args = append(args, "--advertise", n.announced, "--join", c.seeds(), "--bootstrap-expect",
			strconv.Itoa(o.Nodes))
	}
	if o.Policies != "" {
		args = append(args, "--policies", o.policies())
	}
	if o.Shards > 0 {
		args = append(args, "--shards", strconv.Itoa(o.Shards))
	}
	if o.Replicas > 0 {
		args = append(args, "--replicas", strconv.Itoa(o.Replicas))
	}
	return append(args, o.Args...)
}

// seeds returns the announced gossip addresses of the founders.
func (c *Cluster) seeds() string {
	var seeds []string
	for i := range c.options.Nodes {
		seeds = append(seeds, hostPort(c.node(i).announced, gossipPort))
	}
	return strings.Join(seeds, ",")
}

// ExitUntrusted is the exit status of a process that stopped because its disk cannot be trusted.
const ExitUntrusted = 75
