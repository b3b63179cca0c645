package node

import (
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/routing"
	"github.com/stint-io/stint/internal/observe/metrics"
	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/shard"
)

// scrapedHealth is what a scrape tells about the node and its cluster. It holds no state, and may be asked
// concurrently.
type scrapedHealth struct {
	admin     *admin
	readiness *readiness
	dir       *dataDir
	ports     *ports
	router    *routing.Router
	hop       *hop.Hop
	top       *top.Budget
}

func (h scrapedHealth) read() metrics.Health {
	a := h.admin
	hops := h.hop.Stats()
	now := metrics.Health{
		Ready:           h.readiness.check() == nil,
		Convicted:       len(a.replicas.convictions(convictedAgain)),
		TopBytes:        h.top.Used(),
		CertificateEnds: map[string]time.Time{"api": h.ports.secure.Ends()},
		SumsAgreed:      make(map[uint32]time.Time),
		Replicas:        make(map[uint32]metrics.Replica),
		ShardsStopped:   a.replicas.stopped(),
		HopRequests:     hops.Requests,
		HopFrames:       hops.Frames,
		DenialsKept:     h.router.DenialsKept(),
		LeasesHeld:      h.router.LeasesHeld(),
		Edges:           h.ports.edges(),
	}
	if d := h.dir.distrust.Load(); d != nil {
		now.Distrusted = d.At
	}
	for _, r := range a.replicas.all() {
		if r.diverged.Load() != nil {
			now.Convicted++
		}
		if at := r.agreed.Load(); at != 0 && !r.lone {
			now.SumsAgreed[uint32(r.Shard)] = time.UnixMicro(at)
		}
		now.Replicas[uint32(r.Shard)] = h.sizeOf(r)
	}
	if a.view.hasTable() && a.peers.hasJoined() {
		reports, known := a.reporter.reports(), a.view.newestTable()
		now.WantedShards, now.SlotsToMove, now.SlotsMoving = known.WantedShards(), known.SlotsToMove(), len(known.Moves)
		now.Slots = make(map[uint32]int)
		for _, g := range known.Groups {
			if owner, _ := ownerReport(reports, g.Shard); owner == "" {
				now.ShardsUnowned++
			}
			if g.Shard != shard.System {
				now.Slots[uint32(g.Shard)] = known.Slots.Owned(uint32(g.Shard))
			}
		}
		now.DiskLow, now.LastBackup = h.dir.stores.LowDisk(), a.lastBackup()
		machine := a.reporter.machine.report()
		now.DiskFree, now.RecordsMost = machine.DiskFree, machine.RecordLimit
		now.CertificateEnds["peer"] = a.peers.port.CertificateEnds()
		if voters := a.view.voterNodes(shard.System); len(voters) > 1 {
			now.ClockAhead, now.ClockKnown = a.peers.offset(voters)
		}
	}
	return now
}

// sizeOf reads how large a shard is.
func (h scrapedHealth) sizeOf(r *replica) (size metrics.Replica) {
	r.group.View(func(s *shard.State) {
		size = metrics.Replica{Keys: s.Records(), Bytes: s.Bytes(), LegsOpen: s.OpenLegs(),
			PolicyKeys: make(map[string]int)}
		if revision := h.admin.view.revision(); revision != nil {
			for _, use := range s.CapUses(revision.Set, shard.Room{}) {
				size.PolicyKeys[use.Policy] = use.Keys
			}
		}
	})
	return size
}
