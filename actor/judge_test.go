package actor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// judge knows everything: the content of every entry, when it was committed, and every answer to a client. It checks
// that the shard keeps its promises.
type judge struct {
	history    *model.History
	operations []*operation
	byCall     map[*call]*asked
	moment     int64 // counts calls and answers
}

// batch is the set of decisions of a sequencer in one entry, before any of them may be known outside.
type batch struct {
	place     model.Place
	asked     []*asked // by request
	nth       []int    // position in the call, by request
	results   []shard.Result
	committed bool

	transferred bool // it was lost by a handover
}

func newJudge() judge {
	var policies []*policy.Policy
	for name, limits := range theLimits {
		p := &policy.Policy{Name: name, Retention: theRetention(name), OnExpire: policy.OnExpireCancel,
			Lockout: theLockouts[name]}
		for i, l := range limits {
			p.Limits = append(p.Limits, policy.Limit{Name: fmt.Sprint("limit-", i), Limit: l,
				Thresholds: thresholdsOf(l.Quota)})
		}
		policies = append(policies, p)
	}
	return judge{history: model.NewHistory(policies...), byCall: make(map[*call]*asked)}
}

// proposed records the decisions of a flight.
func (j *judge) proposed(w *world, r *replica, f *flight) *batch {
	b := &batch{place: model.Place{Epoch: f.epoch, Seq: f.seq, At: r.seq.last}, results: f.results}
	for _, p := range f.parts {
		a := j.byCall[p.call]
		for i := p.from; i < p.to; i++ {
			a.covered[i] = cover{b, len(b.asked)}
			b.asked, b.nth = append(b.asked, a), append(b.nth, i)
		}
	}
	if r.clock(w) < b.place.At-1000 {
		w.tally.note("shard time stood still")
	}
	if w.story != nil {
		w.tellf("%v proposes %d/%d, time %d: %d requests", r, f.epoch, f.seq, b.place.At, len(b.asked))
	}
	return b
}

// committed replays a batch that every replica installs.
func (j *judge) committed(w *world, b *batch) error {
	b.committed = true
	for i, a := range b.asked {
		o, result := a.of[b.nth[i]], &b.results[i]
		if w.story != nil {
			w.tellf("committed %v: %s", o, outcomeOf(result))
		}
		w.tally.noteHold(o, result)
		err := decidedBy(w.log.adopted, &result.Decision)
		if err == nil {
			err = j.replay(b, o, result)
		}
		if err == nil && a.refused[b.nth[i]] && counted(result) {
			err = errors.New("it was counted after its client was told that it was not")
		}
		if err != nil {
			w.suspect(o)
			return fmt.Errorf("%v at %d/%d: %w", o, b.place.Epoch, b.place.Seq, err)
		}
	}
	return nil
}

func (j *judge) replay(b *batch, o *operation, result *shard.Result) error {
	if o.request.Op == shard.ChangeEvents {
		if result.Err != nil {
			return result.Err
		}
		return nil
	}
	late := o.request.NotAfter != 0 && b.place.At > o.request.NotAfter
	d := o.described()
	d.Place = b.place
	switch err := result.Err; {
	case late != (err != nil && err.Code == shard.TooLate):
		return fmt.Errorf("decided at %d, must not be after %d: %v", b.place.At, o.request.NotAfter, err)
	case late:
		return nil
	case err != nil && err.Code == shard.IDReused:
		d.Refused = model.IDReused
	case err != nil && err.Code == shard.HoldEnded:
		d.Refused = model.HoldEnded
	case err != nil:
		return err
	default:
		d.Answer = answerOf(&result.Decision)
	}
	return j.history.Decide(&d)
}

func answerOf(d *shard.Decision) model.Answer {
	a := model.Answer{Place: model.Place{Epoch: d.Position.Epoch, Seq: d.Position.Seq, At: d.DecidedAt}, Index: d.Index,
		Allowed: d.Allowed, ShadowDenied: d.ShadowDenied, Replayed: d.Replayed, RetryAfter: d.RetryAfter,
		HoldExpires: d.HoldExpires}
	for i := range d.Limits {
		if s := &d.Limits[i]; !isMarker(s.Limit) {
			a.Limits = append(a.Limits, model.Status{Limit: s.Limit, Quota: s.Quota, Unlimited: s.Unlimited,
				Shadow: s.Shadow, Held: s.Held, Granted: s.Granted, LockoutLevel: s.LockoutLevel,
				BlockedUntil: s.BlockedUntil, Blocked: s.Blocked, Verdict: s.Verdict})
		}
	}
	return a
}

// counted reports whether a result, once committed, has changed the shard.
func counted(r *shard.Result) bool {
	return r.Err == nil && r.Decision.Index != 0 && !r.Decision.Replayed
}

func (j *judge) calls(o *operation) {
	j.moment++
	if o.called == 0 {
		o.called = j.moment
	}
}

// heard judges one answer by the log.
func (j *judge) heard(w *world, a *asked, i int, result *shard.Result) error {
	j.moment++
	o, c := a.of[i], a.covered[i]
	var ofBatch *shard.Result
	if c.batch != nil {
		ofBatch = &c.batch.results[c.at]
	}
	switch err := result.Err; {
	case err == nil && c.batch == nil:
		return errors.New("answered without an entry")
	case (err == nil || ofBatch != nil && ofBatch.Err == err) && !c.batch.committed:
		return fmt.Errorf("answered before entry %d/%d is committed", c.batch.place.Epoch, c.batch.place.Seq)
	case err == nil:
		return j.answered(w, o, &result.Decision, &ofBatch.Decision)
	case err.MaybeApplied():
		if blame := c.blame(err); blame != "" {
			return errors.New(blame)
		}
		w.tally.note("unknown")
		o.unknown = true
		return nil
	}
	a.refused[i] = true
	if c.batch != nil && c.batch.committed && counted(ofBatch) {
		return fmt.Errorf("told that it was not applied, but it was counted at %d/%d: %v",
			c.batch.place.Epoch, c.batch.place.Seq, result.Err)
	}
	if result.Err.Code == shard.IDReused {
		w.tally.note("id reused")
		o.unknown = false
	} else {
		w.tally.note("not applied")
	}
	return nil
}

// answered judges a decision that reached its client.
func (j *judge) answered(w *world, o *operation, d, ofBatch *shard.Decision) error {
	if d.Position != ofBatch.Position || d.Index != ofBatch.Index || d.Allowed != ofBatch.Allowed ||
		d.Replayed != ofBatch.Replayed || !slices.Equal(d.Limits, ofBatch.Limits) {
		return fmt.Errorf("answered %+v, its entry says %+v", d, ofBatch)
	}
	w.tally.note(map[bool]string{true: "admitted", false: "denied"}[d.Allowed])
	if d.Replayed {
		w.tally.note("replayed")
	}
	if o.unknown {
		w.tally.note("unknown resolved")
	}
	if first := o.first; first != nil && d.DecidedAt < first.DecidedAt+limit.Time(o.retention()) {
		if d.Position != first.Position || d.Index != first.Index || !slices.Equal(d.Limits, first.Limits) {
			return fmt.Errorf("answered %+v after it was answered %+v", d, first)
		}
	} else if d.Index != 0 && o.request.ID != "" {
		o.first = d
	}
	o.doubted = !d.Allowed && (o.unknown || o.doubted)
	o.unknown, o.last, o.returned = false, d, j.moment
	return nil
}

func (o *operation) retention() (longest limit.Span) {
	for _, c := range o.charges {
		longest = max(longest, theRetention(c.Policy))
	}
	return longest
}

// settle judges the healed world by its clients' knowledge, and its replicas by each other. The last answer about every
// counter is that of readEverything, which the history has compared with its own books.
func (j *judge) settle(w *world) error {
	final := make(map[model.Charge]uint64)
	ledgers := make(map[model.Charge]model.Ledger)
	observed := make(map[model.Charge][]model.Observed)
	for _, o := range j.operations {
		if o.called == 0 {
			continue
		}
		for i, c := range o.charges {
			if theRetention(c.Policy) != longRetention {
				continue
			}
			cost := c.Cost
			c.Cost = 0
			l := ledgers[c]
			switch {
			case o.request.Op == shard.Get && o.last != nil:
				final[c] = o.last.Limits[i].Used
			case o.request.Op == shard.Check && (o.unknown || o.doubted):
				l.Unknown += cost
			case o.request.Op == shard.Check && o.last != nil && o.last.Allowed:
				l.Acked += cost
			}
			ledgers[c] = l
			if seen, ok := o.observed(cost); ok {
				observed[c] = append(observed[c], seen)
			}
		}
	}
	for c, l := range ledgers {
		if err := l.Settle(final[c]); err != nil {
			return fmt.Errorf("%s/%s: %w", c.Policy, c.Key, err)
		}
	}
	if err := j.eventsAre(w); err != nil {
		return err
	}
	if err := j.replicasAgree(w); err != nil || !w.shape.porcupine {
		return err
	}
	for _, key := range theKeys {
		w.tally.note("judged by porcupine")
		if err := model.Linearizable(theLimits["life"][0].Quota, observed[charge("life", key, 0)],
			time.Minute); err != nil {
			return fmt.Errorf("life/%s: %w", key, err)
		}
	}
	return nil
}

// observed converts the operation for check.Linearizable.
func (o *operation) observed(cost uint64) (seen model.Observed, ok bool) {
	seen = model.Observed{Client: o.client, Called: o.called, Returned: o.returned, Cost: cost,
		Unknown: o.unknown || o.doubted}
	if o.request.Op == shard.Get {
		seen.Cost = 0
	}
	if o.last != nil && !seen.Unknown {
		seen.Allowed, seen.Used, seen.At = o.last.Allowed, o.last.Limits[0].Used, o.last.DecidedAt
	}
	return seen, o.last != nil || o.unknown
}

func (j *judge) replicasAgree(w *world) error {
	for _, r := range w.replicas {
		if err := w.hearAll(r); err != nil {
			return err
		}
		if r.state.Sum() != w.log.state.Sum() {
			return fmt.Errorf("%v differs from the log", r)
		}
	}
	return nil
}
