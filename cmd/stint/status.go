package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type statusCommand struct {
	asking
}

// Run prints the cluster, and returns an error if it is not healthy.
func (c *statusCommand) Run(s streams) error {
	status, err := c.status("status")
	if err == nil && status.Partial {
		err = errors.New("status: the server answers, and this token or role may not see the state of the cluster: " +
			"that takes the operation observe")
	}
	if err = show(s, c.output, status, err, printStatus); err == nil && len(status.Problems) > 0 {
		err = fmt.Errorf("the cluster is not healthy: %s", plural(len(status.Problems), "problem"))
	}
	return err
}

// status fetches the state of the cluster on behalf of a command.
func (r remote) status(command string) (*stintv1.StatusResponse, error) {
	return ask(r, command, "", r.cluster().Status, &stintv1.StatusRequest{})
}

// printStatus writes a status as text. Removed nodes are only named.
func printStatus(s streams, m *stintv1.StatusResponse) {
	fmt.Fprintln(s.out, clusterLine(m))
	fmt.Fprintln(s.out)
	certificates := ""
	for _, n := range m.Nodes {
		certificates = headIf(certificatesText(n) != "", "CERTIFICATES", certificates)
	}
	head := "NODE\tSTATE\tHEARD\tOWNS\tREPLICAS\tCLOCK\tZONE\tAPI\t" + certificates + "\tVERSION"
	printTable(s, head, members(m), func(n *stintv1.Node) []any {
		return []any{n.Id, stateText(n), heardText(n), n.Owns, n.Replicas, clockText(n), dash(n.Zone), dash(n.ApiAddr),
			dash(certificatesText(n)), dash(n.Version)}
	})
	fmt.Fprintln(s.out)
	printTable(s, "SHARD\tOWNER\tEPOCH\tSEQ\tKEYS\tPOLICIES\tREPLICAS", m.Shards, func(d *stintv1.Shard) []any {
		policies := strconv.FormatUint(d.PoliciesVersion, 10)
		if d.Name == systemShard {
			policies = "-" // it stores the policies and decides by none
		}
		return []any{d.Name, dash(d.Owner), d.Epoch, d.Seq, d.Keys, policies, replicasText(d.Replicas)}
	})
	fmt.Fprintf(s.out, "\n%s\n", backupLine(m))
	if line := leasesLine(m); line != "" {
		fmt.Fprintln(s.out, line)
	}
	printList(s.out, "under way:", m.Moves)
	printList(s.out, "problems:", m.Problems)
}

// backupLine describes the age of the newest backup.
func backupLine(m *stintv1.StatusResponse) string {
	if m.LastBackup == nil {
		return "last backup: none that this node knows of"
	}
	return fmt.Sprintf("last backup: %v ago", time.Since(m.LastBackup.AsTime()).Round(time.Second))
}

// leasesLine counts edges and the leases of nodes; "": there are none.
func leasesLine(m *stintv1.StatusResponse) string {
	var edges, leases int
	for _, n := range m.Nodes {
		edges, leases = edges+int(n.Edges), leases+int(n.Leases)
	}
	if edges+leases == 0 {
		return ""
	}
	return fmt.Sprintf("%s connected, %s held by nodes", plural(edges, "edge"), plural(leases, "lease"))
}

// clusterLine summarizes a cluster. Like --shards, it does not count the system shard.
func clusterLine(m *stintv1.StatusResponse) string {
	health := "healthy"
	if n := len(m.Problems); n > 0 {
		health = "NOT healthy (" + plural(n, "problem") + ")"
	}
	return fmt.Sprintf("cluster %s %s: %s%s, %s, policies version %d",
		m.ClusterId, health, plural(len(members(m)), "node"), removedText(m), plural(len(dataShards(m)), "shard"),
		m.PoliciesVersion)
}

// removedText names the nodes that were removed, a few of many; "": there are none.
func removedText(m *stintv1.StatusResponse) string {
	const most = 3
	var names []string
	for _, n := range m.Nodes {
		if n.State == removedState {
			names = append(names, n.Id)
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Sprintf(" (and removed: %s%s)", strings.Join(names, ", "), more)
}

const removedState = "removed"

// systemShard is the name of the shard without keys.
const systemShard = "system"

// dataShards are the shards with keys.
func dataShards(m *stintv1.StatusResponse) []*stintv1.Shard {
	return slices.DeleteFunc(slices.Clone(m.Shards), func(d *stintv1.Shard) bool { return d.Name == systemShard })
}

// members are the nodes without those that were removed.
func members(m *stintv1.StatusResponse) []*stintv1.Node {
	return slices.DeleteFunc(slices.Clone(m.Nodes), func(n *stintv1.Node) bool { return n.State == removedState })
}

// stateText returns a node's state for display: an active node that does not answer is down.
func stateText(n *stintv1.Node) string {
	if !n.Alive && n.State == "active" {
		return "down"
	}
	return n.State
}

func heardText(n *stintv1.Node) string {
	if n.Alive {
		return "now"
	}
	if silent := n.Silent.AsDuration(); silent > 0 {
		return silent.Round(time.Second).String() + " ago"
	}
	return "never"
}

func clockText(n *stintv1.Node) string {
	if !n.Alive {
		return "-"
	}
	ahead := n.ClockAhead.AsDuration().Round(time.Millisecond)
	if ahead > 0 {
		return "+" + ahead.String()
	}
	return ahead.String()
}

// certificatesText describes how long a node's certificates are valid, or returns "" if it has none.
func certificatesText(n *stintv1.Node) string {
	var list []string
	for _, c := range []struct {
		name string
		ends *timestamppb.Timestamp
	}{{"api", n.ApiCertificateEnds}, {"peer", n.PeerCertificateEnds}} {
		if c.ends == nil {
			continue
		}
		text := "expired"
		switch left := time.Until(c.ends.AsTime()); {
		case left >= 2*day:
			text = fmt.Sprintf("%d days", left/day)
		case left > 0:
			text = fmt.Sprintf("%d h", left/time.Hour)
		}
		list = append(list, c.name+" "+text)
	}
	return strings.Join(list, ", ")
}

// replicasText lists replicas with the condition of each.
func replicasText(replicas []*stintv1.Replica) string {
	var list []string
	for _, r := range replicas {
		text := r.Node + " " + r.Role
		switch {
		case r.Lost:
			text += " LOST"
		case !r.Known:
			text += " unknown"
		case r.Lag > 0:
			text += fmt.Sprintf(" %d behind", r.Lag)
		}
		list = append(list, text)
	}
	return dash(strings.Join(list, ", "))
}

func printList(w io.Writer, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n  %s\n", title, strings.Join(lines, "\n  "))
	}
}
