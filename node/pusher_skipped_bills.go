package node

import (
	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// skippedOf names the skipped bills of a shard for a sink.
type skippedOf struct {
	shard shard.ID
	sink  string
}

// leftOut is a bill that a sink is not sent, for ever: a person enters it.
type leftOut struct {
	*shard.Usage
	why string
}

// skipBills counts bills that a sink is not sent. What was there when somebody enabled the sink is told no more.
func skipBills(at *shard.PushPosition, s *notify.Sink, ledger string, now limit.Time, left []leftOut) {
	at.Skipped = skippedSince(at, s)
	for _, u := range left {
		if at.Skipped == nil {
			at.Skipped = &shard.SkippedBills{}
		}
		bill := shard.SkippedBill{ID: api.UsageID(ledger, u.Usage), Why: u.why}
		at.Skipped.Add(shard.SkippedBills{At: now, Bills: 1, Newest: []shard.SkippedBill{bill}}, shard.SkippedNewest)
	}
}

// skippedSince is nil if somebody has enabled the sink after the newest was skipped.
func skippedSince(at *shard.PushPosition, s *notify.Sink) *shard.SkippedBills {
	if at.Skipped == nil || at.Skipped.At <= limit.Time(s.Looked) {
		return nil
	}
	return at.Skipped
}

// learnSkipped reads which bills of a shard a sink was not sent.
func (p *pusher) learnSkipped(r *replica, s *notify.Sink) {
	_, at, err := p.position(r, s)
	if err != nil {
		return // push has told it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := skippedOf{r.Shard, s.Name}
	delete(p.skipped, of)
	if skipped := skippedSince(&at, s); skipped != nil {
		if p.skipped == nil {
			p.skipped = map[skippedOf]shard.SkippedBills{}
		}
		p.skipped[of] = *skipped
	}
}

// skippedBills are those of the shards that this node owns, by sink.
func (p *pusher) skippedBills() map[string]shard.SkippedBills {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]shard.SkippedBills{}
	for _, r := range p.replicas.all() {
		for of, skipped := range p.skipped {
			if of.shard == r.Shard && r.actor.Open() {
				sum := all[of.sink]
				sum.Add(skipped, shard.SkippedNewest)
				all[of.sink] = sum
			}
		}
	}
	return all
}
