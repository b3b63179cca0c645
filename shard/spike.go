package shard

import (
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
)

// Spike is a node's observation of a key that is denied far more often than before.
type Spike struct {
	Namespace, Policy string
	Key               string     // as stored
	At                limit.Time // end of the minute in which it was seen, by shard time
	Denials, Mean     uint64     // in that minute, and per minute on average of the nine before
}

// SpikeRequest returns a request that writes the event of a spike, unless the key has had one in the last ten minutes,
// or the spike is older than SpikeFresh, or there is no such policy. The Index of the answer is 0 if it wrote nothing.
// It may be sent twice, and goes to the shard of the key.
func SpikeRequest(s *Spike) Request {
	return Request{Op: NoteSpike, Namespace: s.Namespace, System: &SystemTerms{Spike: s},
		Entries: []Entry{{Policy: s.Policy, Key: s.Key, Cost: 1}}}
}

// code leaves out the names, which the request has.
func (s *Spike) code(c *MessageCodec) {
	codec.Int(&c.Codec, &s.At)
	c.Uint64(&s.Denials, &s.Mean)
}

// The times of spikes.
const (
	SpikeCooldown = limit.Span(10 * 60 * 1e6) // after a spike of a key, its next ones are not reported
	SpikeFresh    = limit.Span(60 * 1e6)      // one that is older, or further ahead, is not reported either
	spikeMinute   = limit.Span(60 * 1e6)      // in which its denials were counted: that before its At
)

// noteSpike writes the event of a spike and its cooldown.
func (b *batch) noteSpike(r *Request, s *Spike) Result {
	if len(r.Entries) != 1 {
		return Result{Err: errUnknownEvents}
	}
	if err := b.slotElsewhere(slot.Of(r.Namespace, r.Entries[0].Key)); err != nil {
		return Result{Err: err}
	}
	d := b.newDecision()
	entry := &r.Entries[0]
	p, known := b.policies.Lookup(entry.Policy)
	if !known || entry.Limits != nil || b.room.brimful() || s.At > b.at.Now+limit.Time(SpikeFresh) ||
		s.At+limit.Time(SpikeFresh) < b.at.Now {
		return Result{Decision: d}
	}
	key := string(appendKeyOf(nil, cooldownRecord, r.Namespace, entry.Policy, entry.Key))
	if _, found := b.lookup(key); found { //mutant:spike-reported-twice
		return Result{Decision: d}
	}
	b.write(Put{Key: key, Record: Record{Value: []byte{recordFormat}, ForgetAt: b.at.Now + limit.Time(SpikeCooldown)}})
	o := openOutbox(b)
	o.add(&Event{
		At:        b.at.Now,
		Kind:      EventSpike,
		Namespace: r.Namespace,
		Policy:    entry.Policy,
		Key:       entry.Key,
		Shadow:    p.Shadow,
		Start:     max(0, s.At-limit.Time(spikeMinute)),
		End:       s.At,
		Denials:   s.Denials,
		Mean:      s.Mean,
		Sinks:     p.Notify,
	})
	o.save()
	b.number(&d)
	return Result{Decision: d}
}
