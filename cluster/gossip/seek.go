package gossip

import (
	"context"
	"net/netip"
	"slices"

	"github.com/stint-io/stint/internal/sleep"
)

// seek keeps looking for missing nodes. memberlist forgets a node half a minute after it failed and never tries it
// again (its issue 222): after a long partition, two halves would stay apart forever.
func (g *Gossip) seek(ctx context.Context) {
	complaint := ""
	for {
		if now := g.seekOnce(ctx); now != complaint {
			complaint = now
			g.complain(ctx, complaint)
		}
		wait := g.config.pace.rejoin
		if complaint != "" && len(g.callbacks.members.answering()) < 2 {
			wait = g.config.pace.alone
		}
		if !sleep.For(ctx, wait) {
			return
		}
	}
}

// complain logs why nodes cannot be found, once for each change of the reason.
func (g *Gossip) complain(ctx context.Context, complaint string) {
	switch {
	case ctx.Err() != nil:
	case complaint == "":
		g.config.Logger.Info("gossip: every known node answers")
	default:
		g.config.Logger.Warn("gossip: some nodes cannot be reached; this is tried again", "error", complaint)
	}
}

// seekOnce joins every known address at which no member answers. It returns why some could not be joined, or "".
func (g *Gossip) seekOnce(ctx context.Context) (complaint string) {
	missing, err := g.missing(ctx)
	if err != nil {
		complaint = err.Error()
	}
	var silent []string
	for _, address := range missing {
		if ctx.Err() != nil {
			return complaint
		}
		if _, err := g.list.Join([]string{address.String()}); err != nil {
			complaint = err.Error()
			silent = append(silent, address.String())
		}
	}
	g.silent.Store(&silent)
	return complaint
}

// Silent lists the known addresses that could not be joined the last time.
func (g *Gossip) Silent() []string {
	if silent := g.silent.Load(); silent != nil {
		return *silent
	}
	return nil
}

// missing returns the addresses of registered nodes and seeds at which no member answers. Names are resolved every
// time, because their addresses change.
func (g *Gossip) missing(ctx context.Context) ([]netip.AddrPort, error) {
	known, err := resolveSeeds(ctx, g.config.Resolver, slices.Concat(g.config.Registered(), g.config.Seeds))
	var missing []netip.AddrPort
	answering := g.callbacks.members.answering()
	for _, address := range known {
		if !answering[address] {
			missing = append(missing, address)
		}
	}
	return missing, err
}
