package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const (
	// pushEvery is how often a node looks whether bills have become final.
	pushEvery = time.Second
	// pushSinksEvery is how old may be what it knows of sinks, as long as a policy names any.
	pushSinksEvery = 15 * time.Second
	// pushBatch is how many bills are sent together, more or less.
	pushBatch = 40
	// pushKept is how long the position of a push is kept.
	pushKept = limit.Span(400 * 24 * 3600 * 1e6)
	// pushAnyway is how old a position may become without a reason to look: a policy may have had another calendar
	// meanwhile, whose last bill is kept for a period.
	pushAnyway = limit.Span(30 * 60 * 1e6)
	// pushKnown is how long after it was sent another shard may begin to send a bill to Stripe, which knows it for a
	// day: it tries for GiveUpStripe.
	pushKnown = limit.Time((23*time.Hour - notify.GiveUpStripe) / time.Microsecond)
)

// finalPushes names the position of a sink in the log of a shard.
const finalPushes = "final"

// pusher sends the bills of the shards that this node owns to the sinks that take usage, once they are final: those of
// the policies that name the sink, and that became final after it was made. The log of each shard has one position for
// each sink, noted after each batch. So at most one batch is sent twice, by another owner, and its bills have the same
// ids. One goroutine runs it; failing may be called concurrently.
type pusher struct {
	sinkSender
	known []notify.Sink   // as read last, and as disabled since
	set   *policy.Set     // in force as this round began
	owed  map[string]bool // by sink: it may have to be sent bills, by what this round has seen
	// by sink: ids of the bills that it was sent, and may have, since it took all of them last
	tried map[string]map[string]bool
	// the replica that the next round begins with: the one behind the last that a sink failed
	first int

	mu      sync.Mutex
	rests   map[string]sinkRest              // by sink; written by run alone, under mu
	skipped map[skippedOf]shard.SkippedBills // of the shards that this node has owned; likewise
}

// sinkRest is how long a sink that has failed is left alone.
type sinkRest struct {
	failures int // since it took something last
	until    time.Time
	why      string
}

// run pushes until ctx ends.
func (p *pusher) run(ctx context.Context) {
	for sleep.For(ctx, pushEvery) {
		p.round(ctx)
	}
}

// round pushes what is due. It forgets the failures of a sink that this node owes nothing: another one may own the
// shards now, and tells itself whether the sink fails.
func (p *pusher) round(ctx context.Context) {
	p.owed = make(map[string]bool)
	if revision := p.view.revision(); revision != nil && sendsBills(revision.Set) && p.learnSinks(ctx) {
		p.set = revision.Set
		p.pushAll(ctx)
	}
	for name, rest := range p.rests {
		if !p.owed[name] && !p.now().Before(rest.until) { //mutant:sink-fails-for-another-owner
			p.forget(name)
		}
	}
}

// pushAll pushes what all shards have for all sinks.
func (p *pusher) pushAll(ctx context.Context) {
	all, first := p.replicas.all(), p.first
	for n := range all {
		at := (first + n) % len(all)
		r := all[at]
		if r.Shard == shard.System || r.stopped.Load() != nil {
			continue
		}
		for i := range p.known {
			s := &p.known[i]
			failures := p.rests[s.Name].failures
			p.owed[s.Name] = p.owed[s.Name] || s.Disabled != nil && r.actor.Open()
			for s.Disabled == nil && s.Takes(notify.Usage) && r.actor.Open() && ctx.Err() == nil && p.push(ctx, r, s) {
			}
			if p.rests[s.Name].failures > failures {
				p.first = at + 1
			}
			p.learnSkipped(r, s)
		}
	}
}

// sendsBills reports whether any policy names a sink. It may have no meter any more, and bills that are to become
// final.
func sendsBills(set *policy.Set) bool {
	return slices.ContainsFunc(set.Names(), func(name string) bool {
		p, _ := set.Lookup(name)
		return len(p.Notify) > 0 //mutant:last-bill-of-a-meter-stays
	})
}

// learnSinks takes the sinks as they were read lately, and reports whether bills can be sent: they have ids. It forgets
// the failures of a sink that another one has replaced.
func (p *pusher) learnSinks(ctx context.Context) bool {
	if sinks, anew := p.sinkSender.learnSinks(ctx, pushSinksEvery); anew {
		for i := range p.known {
			if !slices.ContainsFunc(sinks, p.known[i].Is) {
				p.forget(p.known[i].Name) //mutant:successor-rests
			}
		}
		p.known = slices.Clone(sinks)
	}
	return p.ledger != ""
}

// forget drops what became of the tries at a sink.
func (p *pusher) forget(sink string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rests, sink)
	delete(p.tried, sink)
}

// push takes one step of the bills of a shard for a sink, and reports whether there is another one at once.
func (p *pusher) push(ctx context.Context, r *replica, s *notify.Sink) (more bool) {
	if p.now().Before(p.rests[s.Name].until) {
		return false
	}
	kept, at, err := p.position(r, s)
	p.owed[s.Name] = p.owed[s.Name] || err != nil || at.Through != 0
	if err != nil || at.Through == 0 {
		p.warn(s, r, err)
		return false
	}
	page, err := p.page(ctx, r, s, &at)
	if err == nil && len(page.Periods) > 0 {
		err = p.judge(s, p.send(ctx, r, s, &kept, &at, page.Periods)) //mutant:untaken-bills-skipped
	}
	if err == nil {
		at.From, at.Tried = page.Next, 0
		if page.Next == (shard.UsagePlace{}) {
			at = shard.PushPosition{Done: at.Through, Skipped: at.Skipped, Slots: at.Slots}
		}
		err = p.note(ctx, r, &kept, at)
	}
	if ctx.Err() == nil {
		p.warn(s, r, err)
	}
	return err == nil && at.Through != 0
}

// judge has a sink that has failed rest for a while.
func (p *pusher) judge(s *notify.Sink, o notify.Outcome) error {
	if o.End == notify.Broken {
		return errors.New(o.Why)
	}
	p.metrics.EventTried(s.Name, o.End == notify.Delivered)
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.End == notify.Delivered {
		delete(p.rests, s.Name)
		delete(p.tried, s.Name)
		return nil
	}
	rest := p.rests[s.Name]
	rest.failures, rest.why = rest.failures+1, o.Why
	first := cmp.Or(p.pace.Pause, time.Second)
	rest.until = now.Add(max(o.After, min(first<<min(rest.failures-1, 16), time.Minute)))
	p.rests[s.Name] = rest
	return errors.New(o.Why)
}

// failing says why sinks did not take the bills that they were sent last, by this node.
func (p *pusher) failing() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	failing := make(map[string]string)
	for name, rest := range p.rests {
		failing[name] = rest.why
	}
	return failing
}

func (p *pusher) warn(s *notify.Sink, r *replica, err error) {
	if err != nil && mayComplain(&p.throttle, "push to "+s.Name, p.now()) {
		p.logger.Warn("bills are not pushed yet; they are tried again", "sink", s.Name, "shard", r.Shard, "error", err)
	}
}

// position reads how far a sink is. Its Through is 0 if there is nothing to do. It is not above the shard's time when
// the sinks were read: what became final since then may be for another sink that has the name now.
func (p *pusher) position(r *replica, s *notify.Sink) (kept shard.Push, at shard.PushPosition, err error) {
	var now limit.Time
	r.group.View(func(state *shard.State) {
		now = state.Time()
		kept, err = shard.ReadPush(state, s.Name, finalPushes)
	})
	now -= limit.Time(p.now().Sub(p.readAt).Microseconds()) //mutant:bill-for-a-sink-that-is-gone
	if err == nil {
		at, err = positionOf(&kept, s)
	}
	if err == nil && at.Through == 0 && now > at.Done && anyFinal(p.set, s.Name, at.Done, now) {
		at.Through = now
	}
	return kept, at, err
}

// positionOf reads the position of a push to a sink.
func positionOf(kept *shard.Push, s *notify.Sink) (at shard.PushPosition, err error) {
	if kept.Version > 0 { //mutant:pusher-begins-anew
		err = json.Unmarshal(kept.Position, &at)
	}
	if made := limit.Time(s.Created); at.Done < made { // another sink of that name may have been deleted
		at = shard.PushPosition{Done: made}
	}
	return at, err
}

// page reads the bills that follow a position, and moves it over what has none.
func (p *pusher) page(ctx context.Context, r *replica, s *notify.Sink, at *shard.PushPosition) (page shard.UsagePage,
	err error) {
	wants := func(_, name string) bool {
		named, known := p.set.Lookup(name)
		return known && slices.Contains(named.Notify, s.Name)
	}
	for at.Slots = 0; ctx.Err() == nil; {
		r.group.View(func(state *shard.State) {
			at.Slots = cmp.Or(at.Slots, shard.ServedSlots(state)) // at the first of these pages //mutant:pusher-names-no-slots
			page, err = shard.ReadFinalUsage(state, p.set,
				shard.FinalQuery{After: at.Done, Through: at.Through, From: at.From, Most: pushBatch, Wants: wants})
		})
		for _, u := range page.Unreadable {
			p.logger.Error("bills of a key cannot be read and are not pushed",
				"sink", s.Name, "shard", r.Shard, "namespace", u.Namespace, "policy", u.Policy)
		}
		if err != nil || len(page.Periods) > 0 || page.Next == (shard.UsagePlace{}) {
			return page, err
		}
		at.From, at.Tried = page.Next, 0
	}
	return page, ctx.Err()
}

// anyFinal reports whether periods of policies that name a sink have become final in (after, now].
func anyFinal(set *policy.Set, sink string, after, now limit.Time) bool {
	if now-after > limit.Time(pushAnyway) {
		return true
	}
	return slices.ContainsFunc(set.Names(), func(name string) bool {
		p, _ := set.Lookup(name)
		if p.Meter == nil || !slices.Contains(p.Notify, sink) {
			return false
		}
		start, _ := p.Meter.Cycle.Period(now - limit.Time(p.Meter.Grace))
		return start+limit.Time(p.Meter.Grace) > after
	})
}

// note notes a position in the log of the shard, in place of kept's, and makes it kept's. It fails if another one was
// noted since kept was read.
func (p *pusher) note(ctx context.Context, r *replica, kept *shard.Push, at shard.PushPosition) error {
	text, err := at.Encode()
	if err != nil {
		return err
	}
	kept.Position, kept.Until = text, limit.Time(p.now().UnixMicro())+limit.Time(pushKept)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	result := p.decide(within, []shard.Request{shard.PushRequest(r.Shard, kept)})[0]
	if result.Err != nil {
		return result.Err
	}
	kept.Version = result.Decision.Answer().Document.Version
	return nil
}
