package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// errNoMoves is the error of a shard with an owner that does not know moves.
var errNoMoves = errors.New("node: the owner of the shard runs a version that moves no slots")

// moveDrive is a move as one node drives it. One goroutine uses it.
type moveDrive struct {
	*mover
	placement.Move
	seen     *placement.Table  // which lists the move
	began    time.Time         // when it began to copy or remove records
	from, to *shard.SlotStatus // nil: the shard does not answer
	// Shard times when they last answered.
	fromTime, toTime limit.Time
	stays            bool // the move is over, and From has the slot
}

// timesApart is what a move waits for while To could not take the slot at a time that is near enough to From's.
const timesApart = "the times of both shards to agree"

// run takes steps until the move waits for something or is over, or the table has to be read again.
func (d *moveDrive) run(ctx context.Context) (waits string, err error) {
	d.began = time.Now()
	err = d.look(ctx)
	if d.Generation == 0 && !d.Back {
		if d.from == nil {
			return "", err
		}
		return "", d.number(ctx)
	}
	for {
		next := nextStep(d.Move, d.from, d.to)
		switch {
		case next.told:
			return next.waits, d.tell(ctx, next)
		case next.waits != "":
			return next.waits, err // the error says more
		case (next.step == shard.MovePrepare || next.step == shard.MoveDrop) && d.pace.rest(ctx):
			return "", nil // much may have changed meanwhile
		case next.step == shard.MoveFreeze && d.apart(): //mutant:slot-is-away-until-times-agree
			return timesApart, nil
		case next.step == shard.MoveFreeze:
			if waits, err = d.unsent(ctx); waits != "" || err != nil {
				return waits, err
			}
		case next.step == 0:
			_, err = d.view.table.fetch(ctx)
			return "the table to be read again", err
		}
		if waits, err = d.take(ctx, next); waits != "" || err != nil {
			return waits, err
		}
		switch next.step {
		case shard.MoveFreeze:
			d.began = time.Now() // the steps before cost little
		case shard.MoveTake, shard.MoveDrop:
			d.pace.worked(time.Since(d.began), d.drivers()) //mutant:moves-take-all-the-time
		}
	}
}

// look asks both shards for their status. The error is that of a shard that does not answer.
func (d *moveDrive) look(ctx context.Context) error {
	ids, errs := []shard.ID{d.From, d.To}, make([]error, 2)
	each([]int{0, 1}, func(i int) {
		terms := shard.MoveTerms{Move: d.Move.Move, Step: shard.MoveLook}
		answer, at, err := d.ask(ctx, ids[i], terms, 0)
		switch errs[i] = err; {
		case err != nil:
		case i == 0:
			d.from, d.fromTime = &answer.Status, at
		default:
			d.to, d.toTime = &answer.Status, at
		}
	})
	return errors.Join(errs...)
}

// number gives the move its generation: that after the present one of the slot.
func (d *moveDrive) number(ctx context.Context) error { return d.view.changeTable(ctx, d.numbered) }

// numbered returns the table t with the generation, or nil if t has changed since: the slot may have moved there and
// back, and the same move be listed again. With a generation that is over it could neither begin nor end.
func (d *moveDrive) numbered(t *placement.Table) *placement.Table {
	if t != d.seen { //mutant:move-of-an-old-generation
		return nil
	}
	return t.ApplyGeneration(d.Move, d.from.Generation+1)
}

// successor is the move that begins with the change of the table that ends another one.
type successor struct {
	seen *placement.Table // in which it is due
	move shard.Move       // with its generation; the zero value: there is none
}

// next finds the successor of a move whose slot is on To.
func (d *moveDrive) next(ctx context.Context) (s successor) {
	s.seen = d.view.newestTable()
	due, found := s.seen.After(d.Move.Move)
	if !found {
		return s
	}
	answer, _, err := d.ask(ctx, d.From, shard.MoveTerms{Move: due.Move, Step: shard.MoveLook}, 0)
	if err == nil {
		s.move = due.Move
		s.move.Generation = answer.Status.Generation + 1
	}
	return s
}

// told returns the table t with what a step tells, or nil if nothing is to be changed. The successor begins unless the
// table has changed since: its slot may have moved there and back, and would have another generation.
func (d *moveDrive) told(t *placement.Table, step moverStep, then successor) *placement.Table {
	told := t.ApplySlot(d.Move.Move, step.owner, step.over)
	if told != nil && then.move.Generation != 0 && t == then.seen { //mutant:successor-of-an-old-generation
		told.Moves = append(told.Moves, placement.Move{Move: then.move})
	}
	return told
}

// tell records in the table where the slot is. A slot that has moved is followed by another one in the same change.
func (d *moveDrive) tell(ctx context.Context, step moverStep) error {
	ended, then := false, successor{}
	if step.over && step.owner == d.To {
		then = d.next(ctx)
	}
	err := d.view.changeTable(ctx, func(t *placement.Table) *placement.Table {
		told := d.told(t, step, then)
		ended = step.over && told != nil // else another node has told it
		return told
	})
	d.stays = err == nil && step.over && step.owner == d.From
	if err == nil && ended {
		d.moved()
		d.logger.Info("slot moved", "slot", d.Slot, "from", d.From, "to", d.To, "is_on", step.owner)
	}
	d.tellAll()
	return err
}

// drivers counts the shards that slots move to: each of these moves is driven by the owner of its shard.
func (d *moveDrive) drivers() int {
	to := make(map[shard.ID]bool)
	for _, m := range d.seen.Moves {
		to[m.To] = true
	}
	return len(to)
}

// take takes a step of one of the shards. A page is read from one and put on the other.
func (d *moveDrive) take(ctx context.Context, next moverStep) (waits string, err error) {
	terms := shard.MoveTerms{Move: d.Move.Move, Step: next.step}
	var notAfter limit.Time
	switch next.step {
	case shard.MoveBegin, shard.MoveTake:
		terms.Frozen = *d.from
	case shard.MoveRead:
		terms.Place = d.to.Place
	}
	if next.step == shard.MoveTake {
		notAfter = d.fromTime + takenAhead //mutant:taken-ahead-of-time
	}
	answer, at, err := d.ask(ctx, next.at, terms, notAfter)
	switch {
	case hasCode(err, shard.TooLate):
		return timesApart, nil
	case err != nil:
		return "", err
	}
	if next.at == d.To {
		d.to, d.toTime = &answer.Status, at
		return answer.Waits, nil
	}
	d.from, d.fromTime = &answer.Status, at //mutant:page-goes-with-an-older-status
	if next.step == shard.MoveRead {
		return d.put(ctx, answer.Page)
	}
	return answer.Waits, nil
}

// away reports whether no shard answers for the slot until To takes it or gives it up.
func (d *moveDrive) away() bool {
	return d.from != nil && d.from.State == shard.SlotFrozen && d.to != nil && d.to.State == shard.SlotImporting
}

// apart reports whether the shards' times differ by so much that To may not take the slot in time. Until they agree a
// frozen slot is away.
func (d *moveDrive) apart() bool {
	return max(d.fromTime-d.toTime, d.toTime-d.fromTime) > apartMost //mutant:frozen-just-before-it-is-too-late
}

// unsent says which bills a move waits for. To goes on where the shard was that had sent less, and what one of them has
// sent since, or has begun to send, is sent again: Stripe must still know it.
func (d *moveDrive) unsent(ctx context.Context) (waits string, err error) {
	policies, sinks, err := d.billing(ctx)
	if err != nil {
		return "", err
	}
	for i := range sinks {
		s := &sinks[i]
		if s.Kind != notify.Stripe {
			continue
		}
		from, _, err := pushed(d.from, s)
		to, noted, toErr := pushed(d.to, s)
		if err = cmp.Or(err, toErr); err != nil {
			return "", err
		}
		if !noted && d.seen.Slots.Owned(uint32(d.To)) == 0 {
			continue // it goes on where From is
		}
		first, last := min(from.Done, to.Done), max(from.Done, from.Through, to.Done, to.Through)
		longAgo := max(d.fromTime, d.toTime)-first > pushKnown
		if longAgo && anyFinal(policies, s.Name, first, last) { //mutant:bill-sent-again-when-forgotten
			return fmt.Sprintf("both shards to send their bills to sink %s: one of them has sent more than the other, "+
				"and Stripe may have forgotten which", s.Name), nil
		}
	}
	return "", nil
}

// pushed returns how far a shard has sent its bills to a sink, and whether it has noted that.
func pushed(status *shard.SlotStatus, s *notify.Sink) (at shard.PushPosition, noted bool, err error) {
	kept, err := shard.FindPush(status.Pushes, s.Name, finalPushes)
	if err != nil {
		return at, false, err
	}
	at, err = positionOf(&kept, s)
	return at, kept.Version > 0, err
}

// put gives To a page that From has read. The page's number is the next one by To's last status, so that a copy of the
// request puts nothing twice.
func (d *moveDrive) put(ctx context.Context, page shard.MovePage) (waits string, err error) {
	terms := shard.MoveTerms{
		Move:   d.Move.Move,
		Step:   shard.MovePut,
		Frozen: *d.from,
		Place:  d.to.Place,
		Page:   d.to.Pages,
		Put:    page,
	}
	answer, _, err := d.ask(ctx, d.To, terms, 0)
	if err != nil {
		return "", err
	}
	d.to = &answer.Status
	return answer.Waits, nil
}

// ask has a step evaluated by a shard, and returns its shard time. A step may be repeated, whatever became of the last
// attempt.
func (d *moveDrive) ask(ctx context.Context, id shard.ID, terms shard.MoveTerms, notAfter limit.Time) (*shard.MoveAnswer,
	limit.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, moveWithin)
	defer cancel()
	request := shard.MoveRequest(id, terms)
	request.NotAfter = notAfter
	r := d.submit(ctx, id, []shard.Request{request})[0]
	if r.Err != nil {
		return nil, 0, r.Err
	}
	if answer := r.Decision.Answer().Moved; answer != nil {
		return answer, r.Decision.DecidedAt, nil
	}
	return nil, 0, errNoMoves
}
