package lab

import (
	"fmt"
	"os"
	"strings"
)

// logLines is how much of each log a failure's report shows.
const logLines = 40

// Logs are the last lines of every node's log, for a failure's report.
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

// Log is all that a node's processes wrote.
func (c *Cluster) Log(i int) string {
	text, err := os.ReadFile(c.node(i).log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}
