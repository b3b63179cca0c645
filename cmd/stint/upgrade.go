package main

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type upgradeCommand struct {
	Status upgradeStatusCommand `cmd:"" help:"Show the cluster's feature level, and which levels its nodes know."`
	Pin    upgradePinCommand    `cmd:"" help:"Keep the cluster from rising above a level; 0 lets it rise again."`
	Finish upgradeFinishCommand `cmd:"" help:"Have the cluster rise now to the newest level that all its nodes know."`
}

type upgradeStatusCommand struct {
	asking
}

// Run prints the levels.
func (c *upgradeStatusCommand) Run(s streams) error {
	m, err := c.remote.levels("upgrade status")
	return show(s, c.output, m, err, printLevels)
}

// levels fetches the feature levels on behalf of a command.
func (r remote) levels(command string) (*stintv1.UpgradeStatusResponse, error) {
	return ask(r, command, "", r.cluster().UpgradeStatus, &stintv1.UpgradeStatusRequest{})
}

// printLevels writes the levels as text.
func printLevels(s streams, m *stintv1.UpgradeStatusResponse) {
	fmt.Fprintln(s.out, levelLine(m))
	fmt.Fprintln(s.out)
	printTable(s, "NODE\tVERSION\tLEVELS\tDATA\tHEARD", m.Nodes, func(n *stintv1.NodeLevels) []any {
		heard := "no"
		if n.Alive {
			heard = "now"
		}
		return []any{n.Id, dash(n.Version), levelSpan(n.Min, n.Max), n.Kept, heard}
	})
}

// levelSpan returns "1" or "1 to 2".
func levelSpan(from, to uint32) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// levelLine describes the cluster's level and what happens next.
func levelLine(m *stintv1.UpgradeStatusResponse) string {
	line := fmt.Sprintf("feature level %d", m.Level)
	switch {
	case m.RisingTo != 0:
		line += fmt.Sprintf(", rising to %d: %s", m.RisingTo, riseWaitsFor(m))
	case m.KnownByAll <= m.Level:
		if newest := newestLevel(m); newest > m.Level {
			line += fmt.Sprintf(": not all nodes know %d", newest)
		} else {
			line += ": the newest that its nodes know"
		}
	case m.RisesAt != nil:
		line += fmt.Sprintf(": all nodes know %d, the cluster rises %s", m.KnownByAll, riseText(m.RisesAt))
	}
	if m.Pinned != 0 {
		line += fmt.Sprintf(" (pinned at %d)", m.Pinned)
	}
	return line
}

// riseText formats when the cluster rises to the level that all nodes know. If the time has come, or an operator has
// asked for the rise, a node is away.
func riseText(t *timestamppb.Timestamp) string {
	if left := time.Until(t.AsTime()).Round(time.Second); left > 0 {
		return "in " + left.String() + ", or at `stint cluster upgrade finish`"
	}
	return "when all of them answer"
}

// riseWaitsFor names the nodes that are not yet ready for the next level: their data directories are below it, or they
// do not answer.
func riseWaitsFor(m *stintv1.UpgradeStatusResponse) string {
	var waiting []string
	for _, n := range m.Nodes {
		if n.Kept < m.RisingTo || !n.Alive {
			waiting = append(waiting, n.Id)
		}
	}
	if len(waiting) == 0 {
		return "all nodes are ready"
	}
	return "waiting for " + strings.Join(waiting, ", ")
}

func newestLevel(m *stintv1.UpgradeStatusResponse) (newest uint32) {
	for _, n := range m.Nodes {
		newest = max(newest, n.Max)
	}
	return newest
}

type upgradePinCommand struct {
	Level uint32 `arg:"" help:"The level above which the cluster does not rise; 0: it may rise."`
	remote
}

// Run pins the level.
func (c *upgradePinCommand) Run(s streams) error {
	verdict := "the cluster's feature level is not pinned"
	if c.Level != 0 {
		verdict = fmt.Sprintf("the cluster does not rise above feature level %d, until stint cluster upgrade pin 0",
			c.Level)
	}
	return asked(s, asking{remote: c.remote}, fmt.Sprintf("upgrade pin %d", c.Level),
		"it may be pinned all the same: see stint cluster upgrade status", c.cluster().PinLevel,
		&stintv1.PinLevelRequest{Level: c.Level},
		func(s streams, _ *stintv1.PinLevelResponse) { fmt.Fprintln(s.out, verdict) })
}

type upgradeFinishCommand struct {
	Wait time.Duration `help:"How long to wait until the cluster is at the level; 0: not at all." default:"30s"`
	remote
}

// Run begins the rise and waits for its end.
func (c *upgradeFinishCommand) Run(s streams) error {
	answer, err := ask(c.remote, "upgrade finish", "it may have begun all the same: see stint cluster upgrade status",
		c.cluster().FinishUpgrade, &stintv1.FinishUpgradeRequest{})
	if err != nil || c.Wait <= 0 {
		return err
	}
	level := answer.Level
	err = awaitEnd(s, "upgrade finish", c.Wait, "stint cluster upgrade status", func() (string, error) {
		m, err := c.remote.levels("upgrade finish")
		if err != nil || m.Level >= level {
			return "", err
		}
		return levelLine(m), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "the cluster is at feature level %d\n", level)
	return nil
}
