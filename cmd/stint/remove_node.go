package main

import (
	"fmt"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type removeNodeCommand struct {
	Node string        `arg:"" help:"Id of the node."`
	Wait time.Duration `help:"How long to wait until it is removed; 0: not at all." default:"2m"`
	Yes  bool          `help:"Do not ask, even if shards keep fewer copies."`
	remote
}

// Run announces the consequences, begins the removal, and waits until the node is removed.
func (c *removeNodeCommand) Run(s streams) error {
	what := "remove-node " + c.Node
	status, err := c.status(what)
	if err != nil {
		return err
	}
	n, others := findNode(status, c.Node)
	switch {
	case n == nil:
		return fmt.Errorf("%s: the cluster has no such node; stint status lists them", what)
	case n.State == "removed":
		fmt.Fprintf(s.out, "%s was removed before\n", c.Node)
		return nil
	case others == 0:
		return fmt.Errorf("%s: it is the last node: no other node could take over its shards", what)
	}
	if loses := losesCopies(status, others); loses != "" {
		fmt.Fprintf(s.out, "without %s %s\n", c.Node, loses)
		if !c.Yes {
			if err := s.consent("Remove "+c.Node+"?", what+": nothing was changed"); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(s.out, "removing %s: others take over its %s\n", c.Node, plural(n.Replicas, "replica"))
	_, err = ask(c.remote, what, "it may have begun all the same: see stint status", c.cluster().RemoveNode,
		&stintv1.RemoveNodeRequest{NodeId: c.Node})
	if err != nil || c.Wait <= 0 {
		return err
	}
	if err := awaitEnd(s, what, c.Wait, "stint status", c.left); err != nil {
		return err
	}
	verdict := "%s is removed: it stops by itself; its data can be deleted\n"
	if !n.Alive {
		verdict = "%s is removed. If it still runs, it stops by itself. Its data can be deleted\n"
	}
	fmt.Fprintf(s.out, verdict, c.Node)
	return nil
}

// losesCopies describes how many copies shards keep on the remaining nodes, or returns "" if as many as now.
func losesCopies(m *stintv1.StatusResponse, stay int) string {
	copies := 0
	for _, shard := range m.Shards {
		voters := 0
		for _, r := range shard.Replicas {
			if r.Voter {
				voters++
			}
		}
		if voters > 2 {
			voters = (voters-1)/2*2 + 1 // of an even number, one takes the place of another
		}
		copies = max(copies, voters)
	}
	left := (stay-1)/2*2 + 1 // an odd number: an even one survives no more failures
	if left >= copies {
		return ""
	}
	text := fmt.Sprintf("the cluster has %s, and each shard keeps %d of its %d copies",
		plural(stay, "node"), left, copies)
	if left == 1 {
		text += ", and stops counting while the node that has it is away"
	}
	return text + "; to keep them, start another node first"
}

// left describes what the node still holds, or returns "" if the node is removed.
func (c *removeNodeCommand) left() (string, error) {
	status, err := c.status("remove-node " + c.Node)
	if err != nil {
		return "", err
	}
	n, _ := findNode(status, c.Node)
	if n == nil || n.State == "removed" {
		return "", nil
	}
	return fmt.Sprintf("%s still holds %s", c.Node, plural(n.Replicas, "replica")), nil
}

// findNode finds a node and counts the nodes that stay without it.
func findNode(m *stintv1.StatusResponse, id string) (found *stintv1.Node, others int) {
	for _, n := range m.Nodes {
		switch {
		case n.Id == id:
			found = n
		case n.State != "leaving" && n.State != "removed":
			others++
		}
	}
	return found, others
}
