package main

import (
	"fmt"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type shardsCommand struct {
	Shards uint32        `arg:"" optional:"" help:"How many shards are to share all keys: 1 to 256. Default: only show them."`
	Wait   time.Duration `help:"How long to wait until they do; 0: not at all." default:"1h"`
	asking
}

// Run asks for a number of shards, waits until they share all slots, and prints them.
func (c *shardsCommand) Run(s streams) error {
	const what = "shards"
	left := ""
	if c.Shards != 0 {
		seen, err := c.status(what)
		if err != nil {
			return err
		}
		request := &stintv1.SetShardsRequest{Shards: c.Shards}
		if !seen.Partial {
			request.ExpectedRevision = &seen.ShardsRevision
		}
		_, err = ask(c.remote, what, "it may have begun all the same: see stint shards", c.cluster().SetShards, request)
		if err != nil {
			return err
		}
		if left, err = c.await(s, what, seen); err != nil {
			return err
		}
	}
	status, err := c.status(what)
	if err = show(s, c.output, status, err, printShards); err == nil && left != "" {
		err = fmt.Errorf("%s: after %v %s; it goes on: see stint shards", what, c.Wait, left)
	}
	return err
}

// await waits for the end of what was asked for after seen. It ends with an error when somebody has asked for another
// number since.
func (c *shardsCommand) await(s streams, what string, seen *stintv1.StatusResponse) (left string, err error) {
	if c.Wait <= 0 {
		return "", nil
	}
	var other uint32
	left, err = await(s, c.Wait, func() (string, error) {
		status, err := c.status(what)
		switch {
		case err != nil:
			return "", err
		case status.WantedShards == c.Shards:
			return toMove(status), nil
		case status.ShardsRevision > seen.ShardsRevision+1: //mutant:replaced-number-awaited
			other = status.WantedShards
			return "", nil
		}
		return fmt.Sprintf("%s are wanted", plural(status.WantedShards, "shard")), nil // as far as the node has heard
	})
	if other != 0 {
		err = fmt.Errorf("%s: somebody has asked for %s since: see stint shards", what, plural(other, "shard"))
	}
	return left, err
}

// toMove describes what is still to be done until the wanted shards share all slots, or returns "".
func toMove(m *stintv1.StatusResponse) string {
	if m.SlotsToMove == 0 && len(m.SlotMoves) == 0 {
		return ""
	}
	text := fmt.Sprintf("%s to move", plural(m.SlotsToMove, "slot"))
	for _, v := range m.SlotMoves {
		if v.Waits != "" {
			return text + fmt.Sprintf("; slot %d waits: %s", v.Slot, v.Waits)
		}
	}
	return text
}

// printShards writes the shards with their slots as text, and the slots that move.
func printShards(s streams, m *stintv1.StatusResponse) {
	fmt.Fprintf(s.out, "%s: %s to move\n\n", plural(m.WantedShards, "shard"), plural(m.SlotsToMove, "slot"))
	printTable(s, "SHARD\tOWNER\tSLOTS\tKEYS", dataShards(m), func(d *stintv1.Shard) []any {
		slots := uint32(0)
		for _, r := range d.Slots {
			slots += r.Last - r.First + 1
		}
		return []any{d.Name, dash(d.Owner), slots, d.Keys}
	})
	if len(m.SlotMoves) > 0 {
		fmt.Fprintln(s.out)
		printTable(s, "MOVES\tFROM\tTO\tWAITS FOR", m.SlotMoves, func(v *stintv1.SlotMove) []any {
			return []any{fmt.Sprintf("slot %d", v.Slot), v.From, v.To, dash(v.Waits)}
		})
	}
}
