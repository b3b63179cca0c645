package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-io/stint/shard"
)

// named is one key with its policy.
type named struct{ policy, name string }

// everyKey lists the keys that are counted in a world.
func everyKey() []named {
	return []named{{"stock", "stock a"}, {"stock", "stock b"}, {"stock", "stock c"}, {"hits", "hits a"},
		{"hits", "hits b"}, {"grown", "grown a"}, {"grown", "grown b"}, {"grown", "grown c"}, {"seats", "seats a"},
		{"seats", "seats b"}, {"leases", "leases a"}}
}

// fate is a client's knowledge of an operation's outcome.
type fate uint8

const (
	unknown  fate = iota // it may have been counted, or may still be
	answered             // there is a decision
	refused              // certainly not counted
	ended                // a settlement with a target that had ended before
)

// op is one operation on one key, from the first call to the last answer.
type op struct {
	client           int
	key              named
	kind             shard.Op
	cost             uint64
	id               string
	called, returned time.Duration // since the world began
	asked            int
	fate             fate
	decision         shard.Decision
	again            *shard.Decision // the answer to one more request with the same id
	err              *shard.Error    // the last one
	failed           bool            // although its node was not at fault: it runs, and is not stopping
	waited           time.Duration   // for an answer; without what resolve adds in the end
	settlement
}

func (o *op) String() string {
	d := &o.decision
	s := fmt.Sprintf("%9.3f-%9.3f c%d %s %s cost %d id %q asked %d", o.called.Seconds(), o.returned.Seconds(), o.client,
		map[shard.Op]string{shard.Check: "check", shard.Get: "get", shard.Reserve: "reserve",
			shard.Settle: "settle"}[o.kind], o.key.name, o.cost, o.id, o.asked)
	if o.kind == shard.Settle {
		s += fmt.Sprintf(" action %d, %d spent, of %v/%d.%d",
			o.action, o.spent, o.of.decision.Position, o.of.decision.Position.Seq, o.of.decision.Index)
	}
	switch o.fate {
	case ended:
		s += " ended before"
	case answered:
		s += fmt.Sprintf(" allowed %v at %v/%d.%d replayed %v time %d", d.Allowed, d.Position.Epoch, d.Position.Seq,
			d.Index, d.Replayed, d.DecidedAt)
		for _, l := range d.Limits {
			s += fmt.Sprintf(" %s used %d of %d window %d", l.Limit, l.Used, l.Quota, l.WindowStart)
		}
	case refused:
		s += fmt.Sprintf(" refused: %v", o.err)
	default:
		s += fmt.Sprintf(" unknown: %v", o.err)
	}
	return s
}

func (o *op) request() shard.Request {
	r := shard.Request{Op: o.kind, Namespace: shard.DefaultNamespace, ID: o.id,
		Entries: []shard.Entry{{Policy: o.key.policy, Key: o.key.name, Cost: o.cost}}}
	switch o.kind {
	case shard.Reserve:
		r.Hold = &shard.HoldTerms{TTL: seatsTTL}
		if o.key.policy == "leases" {
			r.Hold.TTL = leaseTTL
		}
	case shard.Settle:
		taking := o.of.request()
		r.Settlement, r.Entries = o.settles(), shard.Taken(&taking, &o.of.decision)
	}
	return r
}

// client does one operation after the other.
type client struct {
	w      *world
	number int
	chance *rand.Rand
	ops    []*op
	ids    int

	resolving bool // the load has ended
}

func newClient(w *world, number int) *client {
	return &client{w: w, number: number, chance: rand.New(rand.NewPCG(w.plan.seed, uint64(100+number)))}
}

// deadline is how long a client waits for an answer.
const deadline = 2 * time.Second

func (c *client) run(stop chan struct{}) {
	keys := everyKey()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration((50 + c.chance.ExpFloat64()*350) * float64(time.Millisecond))):
		}
		if c.chance.IntN(12) == 0 {
			var batch []*op
			for range 2 + c.chance.IntN(4) {
				batch = append(batch, c.newOp(keys[c.chance.IntN(len(keys))]))
			}
			c.ask(batch)
			continue
		}
		o := c.newOp(keys[c.chance.IntN(len(keys))])
		c.ask([]*op{o})
		if o.sure() {
			c.insist(o, stop)
		}
	}
}

func (c *client) newOp(key named) *op {
	o := &op{client: c.number, key: key, kind: shard.Check, cost: uint64(1 + c.chance.IntN(3))}
	if key.policy == "seats" || key.policy == "leases" {
		c.takeOrSettle(o)
	}
	if o.kind != shard.Settle && c.chance.IntN(10) == 0 {
		o.kind = shard.Get
	} else if o.kind != shard.Settle && c.chance.IntN(3) == 0 {
		c.ids++
		o.id = fmt.Sprintf("c%d-%d", c.number, c.ids)
	}
	o.called = time.Since(c.w.began)
	c.ops = append(c.ops, o)
	return o
}

// insist retries with the same id until there is an answer, and sometimes asks once more.
func (c *client) insist(o *op, stop chan struct{}) {
	for o.fate == unknown {
		select {
		case <-stop:
			return // resolve continues
		case <-time.After(100 * time.Millisecond):
		}
		c.ask([]*op{o})
	}
	if o.fate == answered && o.id != "" && o.decision.Allowed && c.chance.IntN(4) == 0 {
		c.askAgain(o)
	}
}

// inDoubt reports whether an answer leaves open what became of an earlier copy under the same id. A denial is not
// recorded (S6), so the earlier copy may have arrived after it, and have been admitted.
func inDoubt(f fate, d *shard.Decision, asked int, id string) bool {
	return f == answered && !d.Allowed && asked > 1 && id != ""
}

// resolve asks for the open fates of operations with an id, when the world is whole again. No client waited until then:
// a batch, for one, is not sent again before.
func (c *client) resolve() {
	c.resolving = true
	for _, o := range c.ops {
		if inDoubt(o.fate, &o.decision, o.asked, o.id) {
			o.fate = unknown
			c.w.tally.note("operations: denied after an unknown outcome")
		}
		for i := 0; o.sure() && o.fate == unknown && i < 10; i++ {
			c.ask([]*op{o})
		}
		if o.sure() && o.fate == unknown {
			c.w.fail(fmt.Errorf("the fate of an id cannot be learned in a whole world: %v", o))
		}
	}
}

// ask sends a batch to any node.
func (c *client) ask(batch []*op) {
	results, l := c.decide(batch)
	for i, o := range batch {
		o.returned = time.Since(c.w.began)
		if !c.resolving {
			o.waited = o.returned - o.called
		}
		if l == nil { // no node runs
			if o.asked == 0 {
				o.fate = refused
			}
			continue
		}
		o.asked++
		if l.dead.Load() { // a dead process's answer reaches no client
			o.fate = unknown
			continue
		}
		c.learn(o, l, results[i])
	}
}

func (c *client) decide(batch []*op) ([]shard.Result, *life) {
	lives := c.w.lives()
	if len(lives) == 0 {
		return nil, nil
	}
	l := lives[c.chance.IntN(len(lives))]
	ctx, cancel := context.WithTimeout(l.ctx, deadline)
	defer cancel()
	requests := make([]shard.Request, len(batch))
	for i, o := range batch {
		requests[i] = o.request()
	}
	began := time.Now()
	results := l.Decide(ctx, requests)
	if took := time.Since(began); took > deadline+100*time.Millisecond {
		c.w.fail(fmt.Errorf("client %d waited %v for %s, its deadline was %v: %v",
			c.number, took, l.machine.id, deadline, batch[0]))
	}
	return results, l
}

// learn records an answer. A refusal says nothing about earlier copies.
func (c *client) learn(o *op, l *life, r shard.Result) {
	o.err = r.Err
	switch {
	case r.Err == nil:
		o.fate, o.decision = answered, r.Decision
		c.w.claim(o)
	case r.Err.Code == shard.HoldEnded && o.kind == shard.Settle:
		o.fate = ended
		return
	case r.Err.MaybeApplied() || o.asked > 1:
		o.fate = unknown
	default:
		o.fate = refused
	}
	if r.Err == nil {
		return
	}
	o.failed = o.failed || !l.closing.Load()
	switch r.Err.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.TooLate, shard.UnknownOutcome:
	default:
		c.w.fail(fmt.Errorf("a client was answered with code %d: %v", r.Err.Code, o))
	}
}

// askAgain repeats a request that was counted: the answer must be the same.
func (c *client) askAgain(o *op) {
	copied := *o
	results, l := c.decide([]*op{&copied})
	if l == nil || l.dead.Load() || results[0].Err != nil {
		return
	}
	o.again = &results[0].Decision
}

// readFinal reads every key at the end.
func (w *world) readFinal() {
	c := newClient(w, len(w.clients))
	for _, key := range everyKey() {
		for range 10 {
			o := c.newOp(key)
			o.kind, o.id, o.cost = shard.Get, "", 1
			c.ask([]*op{o})
			if o.fate == answered {
				break
			}
		}
	}
	w.clients = append(w.clients, c)
}
