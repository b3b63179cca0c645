package main

import (
	"fmt"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type shardsCommand struct {
	Shards uint32        `arg:"" optional:"" help:"How many shards are to share all keys: 1 to 256. Default: only show them."`
	Wait   time.Duration `help:"How long to wait until they do; 0: not at all." default:"10m"`
	asking
}

// Help implements kong.HelpProvider.
func (*shardsCommand) Help() string {
	return "A key is in one of 1,024 slots, and each slot is on one shard. " +
		"One shard uses the processors of one node, so a cluster begins with one, and gets more when that node is " +
		"busy. Slots move two at a time, with all of their counts, while the cluster serves; " +
		"a key waits for some milliseconds while its slot moves. A shard that is no longer wanted stays, " +
		"without slots.\n\n" +
		"    stint shards       # where the slots are, and what those that move wait for\n" +
		"    stint shards 3\n\n" +
		"Exit code 0: they share the keys (unless --wait 0). 1: it was refused, " +
		"or slots are still to move after --wait."
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
		if left, err = c.await(s, what); err != nil {
			return err
		}
	}
	status, err := c.status(what)
	if err = show(s, c.output, status, err, printShards); err == nil && left != "" {
		err = fmt.Errorf("%s: after %v %s; it goes on: see stint shards", what, c.Wait, left)
	}
	return err
}

func (c *shardsCommand) await(s streams, what string) (left string, err error) {
	if c.Wait <= 0 {
		return "", nil
	}
	return await(s, c.Wait, func() (string, error) {
		status, err := c.status(what)
		if err != nil {
			return "", err
		}
		if status.WantedShards != c.Shards {
			return fmt.Sprintf("%s are wanted", plural(status.WantedShards, "shard")), nil
		}
		return toMove(status), nil
	})
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
