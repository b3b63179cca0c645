package actor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// client makes one call at a time, of one or several requests, and retries where it has to.
type client struct {
	number int
	waits  *asked       // the call it waits for
	again  []*operation // to be asked (again) with the next call
}

// operation is one action of a client: the same request, retried until its outcome is known.
type operation struct {
	number  int
	client  int
	request shard.Request
	charges []model.Charge
	first   *shard.Decision // the first answer that counted
	last    *shard.Decision // the newest answer
	unknown bool            // it was asked, and its outcome is not known yet
	// denied after it was unknown: an id remembers no denial, so an earlier copy may be counted
	doubted  bool
	called   int64 // world.judge.moment of the first call
	returned int64 // world.judge.moment of the newest answer
}

var opNames = map[shard.Op]string{shard.Check: "check", shard.Peek: "peek", shard.Get: "get", shard.Reset: "reset",
	shard.Count: "count", shard.Partial: "partial", shard.Reserve: "reserve", shard.Settle: "settle",
	shard.ChangeEvents: "acknowledge"}

func (o *operation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "operation %d [%s", o.number, opNames[o.request.Op])
	for _, c := range o.charges {
		fmt.Fprintf(&b, " %s/%s:%d", c.Policy, c.Key, c.Cost)
	}
	if o.request.ID != "" {
		fmt.Fprintf(&b, " id %s", o.request.ID)
	}
	if h := o.request.Hold; h != nil {
		fmt.Fprintf(&b, " for %d", h.TTL)
	}
	if s := o.request.Settlement; s != nil {
		fmt.Fprintf(&b, " action %d of %d/%d/%d", s.Action, s.Target.Position.Epoch, s.Target.Position.Seq,
			s.Target.Index)
	}
	return b.String() + "]"
}

// asked is one call in progress, and the history of each of its requests.
type asked struct {
	client  *client
	call    *call
	of      []*operation
	covered []cover // by request: the batch it went into
	refused []bool  // by request: the client was answered that it was not applied
	gone    bool    // the client has its answer, or has given up
}

type cover struct {
	batch *batch
	at    int // in the batch
}

// call makes a client that waits for nothing ask a replica.
func (w *world) call(r *replica) {
	for range 3 {
		w.ask(w.clients[w.random.IntN(len(w.clients))], r)
	}
}

func (w *world) ask(c *client, r *replica) {
	if c.waits != nil || !r.up {
		return
	}
	n := 1 + w.random.IntN(w.shape.perCall)
	of := c.again[:min(n, len(c.again))]
	c.again = slices.Clone(c.again[len(of):])
	for len(of) < n && !w.healing {
		of = append(of, w.anyOperation(c.number))
	}
	if len(of) == 0 {
		return
	}
	a := &asked{client: c, of: of, covered: make([]cover, len(of)), refused: make([]bool, len(of))}
	requests := make([]shard.Request, len(of))
	for i, o := range of {
		requests[i] = o.request
		w.judge.calls(o)
		w.tellf("client %d asks %v: %v", c.number, r, o)
	}
	size := weigh(requests)
	if !r.room.enter(size, deciding) {
		panic("the room of a world is endless")
	}
	a.call = newCall(requests, w.deadline(), classOf(requests), r.room, size)
	c.waits = a
	r.asked = append(r.asked, a)
	w.judge.byCall[a.call] = a
	r.seq.enqueue(a.call)
	w.tally.operations += len(of)
}

func (w *world) deadline() (none time.Time) {
	if w.healing || w.random.IntN(2) == 0 {
		return none
	}
	return w.wall().Add(time.Duration(1+w.random.IntN(900)) * time.Millisecond)
}

// anyOperation makes a random operation.
func (w *world) anyOperation(client int) *operation {
	r := w.random
	if w.shape.porcupine {
		o := w.newOperation(shard.Check, true, charge("life", theKeys[r.IntN(2)], 1+r.Uint64N(2)))
		if r.IntN(4) == 0 {
			o = w.newOperation(shard.Get, false, o.charges...)
		}
		o.client = client
		return o
	}
	charges := []model.Charge{charge(w.anyName(), theKeys[r.IntN(2)], 1+r.Uint64N(3))}
	if r.IntN(6) == 0 {
		if second := charge(w.anyName(), theKeys[r.IntN(2)], 1); second.Policy != charges[0].Policy {
			charges = append(charges, second)
		}
	}
	op := shard.Check
	switch r.IntN(40) {
	case 0:
		op = shard.Peek
	case 1, 2:
		op = shard.Get
	case 3:
		op, charges = shard.Reset, []model.Charge{charge(theNames[r.IntN(resettable)], theKeys[r.IntN(2)], 1)}
	}
	if r.IntN(30) == 0 {
		if o := w.acknowledgement(client); o != nil {
			return o
		}
	}
	if o := w.holdOperation(client); o != nil {
		return o
	}
	o := w.newOperation(op, r.IntN(3) > 0, charges...)
	o.client = client
	if o.request.ID != "" && op == shard.Check && r.IntN(50) == 0 && o.number > 10 && o.retention() == shortRetention {
		o.request.ID = fmt.Sprint("id-", o.number-1-r.IntN(9)) // another operation's id
	}
	if o.request.ID == "" && r.IntN(10) == 0 {
		o.request.NotAfter = limit.Time(w.now + r.Int64N(400_000))
	}
	return o
}

// anyName usually returns one of two policies of this world, so that keys are hot.
func (w *world) anyName() string {
	if w.random.IntN(3) > 0 {
		return theNames[(int(w.seed)+w.random.IntN(2))%len(theNames)]
	}
	return theNames[w.random.IntN(len(theNames))]
}

func (w *world) newOperation(op shard.Op, withID bool, charges ...model.Charge) *operation {
	o := &operation{number: len(w.judge.operations), charges: charges}
	w.judge.operations = append(w.judge.operations, o)
	o.request = shard.Request{Op: op, Namespace: "default"}
	for _, c := range charges {
		o.request.Entries = append(o.request.Entries, shard.Entry{Policy: c.Policy, Key: c.Key, Cost: c.Cost})
	}
	if withID {
		o.request.ID = fmt.Sprint("id-", o.number)
	}
	return o
}

// giveUp ends a call after its deadline, as Actor.Submit does.
func (w *world) giveUp(c *client) error {
	if c.waits == nil || c.waits.call.deadline.IsZero() || w.wall().Before(c.waits.call.deadline) {
		return nil
	}
	w.tally.note("deadline passed")
	return w.learn(c.waits, abandon(c.waits.call))
}

// learn gives a client the answer to its call, and lets it decide what to retry.
func (w *world) learn(a *asked, results []shard.Result) error {
	a.gone, a.client.waits = true, nil
	for i, o := range a.of {
		if w.story != nil {
			w.tellf("client %d hears of %v: %s", a.client.number, o, outcomeOf(&results[i]))
		}
		if err := w.judge.heard(w, a, i, &results[i]); err != nil {
			w.suspect(o)
			return fmt.Errorf("%v: %w", o, err)
		}
		if w.asksAgain(o, &results[i]) {
			a.client.again = append(a.client.again, o)
		}
	}
	return nil
}

func (w *world) asksAgain(o *operation, result *shard.Result) bool {
	switch {
	case result.Err == nil:
		return o.request.ID != "" && !w.healing && w.random.IntN(12) == 0
	case result.Err.Code == shard.IDReused || result.Err.Code == shard.TooLate || result.Err.Code == shard.HoldEnded:
		return false
	case result.Err.MaybeApplied():
		return o.request.ID != ""
	}
	return o.unknown || !w.healing && w.random.IntN(2) == 0
}

func (w *world) suspect(o *operation) {
	for _, c := range o.charges {
		w.suspects = append(w.suspects, c.Policy+"/"+c.Key)
	}
}

func outcomeOf(r *shard.Result) string {
	d := &r.Decision
	if r.Err != nil {
		return fmt.Sprintf("error %d: %v", r.Err.Code, r.Err)
	}
	said := map[bool]string{true: "allowed", false: "denied"}[d.Allowed]
	if d.Replayed {
		said += ", replayed"
	}
	for _, l := range d.Limits {
		said += fmt.Sprintf(", used %d", l.Used)
	}
	return fmt.Sprintf("%s, at %d/%d/%d, time %d", said, d.Position.Epoch, d.Position.Seq, d.Index, d.DecidedAt)
}
