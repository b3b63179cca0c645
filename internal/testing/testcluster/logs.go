package testcluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// logLines is the number of lines of each log in a failure report.
const logLines = 40

// Logs returns the last lines of every node's log, for a failure report.
func (c *Cluster) Logs() string {
	var all strings.Builder
	for i := range c.Len() {
		fmt.Fprintf(&all, "the end of the log of %s:\n", c.Name(i))
		lines := strings.Split(strings.TrimRight(c.Log(i), "\n"), "\n")
		for _, line := range lines[max(0, len(lines)-logLines):] {
			all.WriteString("    " + line + "\n")
		}
	}
	return all.String()
}

// stackLines is the number of lines of each node's stacks in a failure report.
const stackLines = 300

// stacks ends the running nodes with SIGQUIT, and returns what their goroutines waited for.
func (c *Cluster) stacks() string {
	var all strings.Builder
	for i := range c.Len() {
		if !c.Running(i) || c.signal(i, syscall.SIGQUIT) != nil {
			continue
		}
		select {
		case <-c.node(i).current().ended:
		case <-time.After(patience): // it does not even do that: stopped, or without a processor
			fmt.Fprintf(&all, "%s does not end within %v of SIGQUIT\n", c.Name(i), patience)
		}
		if _, stacks, found := strings.Cut(c.Log(i), "SIGQUIT: quit"); found {
			lines := strings.Split(stacks, "\n")
			fmt.Fprintf(&all, "the stacks of %s:\n%s\n", c.Name(i),
				strings.Join(lines[:min(len(lines), stackLines)], "\n"))
		}
	}
	return all.String()
}

// Log returns everything that a node's processes wrote.
func (c *Cluster) Log(i int) string {
	text, err := os.ReadFile(c.node(i).log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
