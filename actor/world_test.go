package actor

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-io/stint/internal/testing/model"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// theShard is the number of the only shard.
const theShard shard.ID = 3

// world is a shard and its surroundings, in virtual time, driven only by its random numbers. Its parts are in
// replica_test.go (owners and followers), log_test.go, client_test.go and judge_test.go.
type world struct {
	seed   uint64
	random *rand.Rand
	story  *story // nil: the story is not recorded
	tally  tally
	shape  shape

	now          int64 // microseconds since the Unix epoch; no clock in the world shows it exactly
	step         int64
	healing      bool   // no fault happens anymore
	newest       uint64 // version of the policies
	transferring bool   // the leader that is elected now was chosen by the previous one

	log      log
	replicas []*replica
	leader   int // of replicas; -1: none
	clients  []*client
	judge    judge
	suspects []string // keys that a failure is about
}

// shape holds the differences between worlds, apart from their schedules.
type shape struct {
	replicas, clients, perCall int
	steps                      int
	faults                     int // in a thousand steps
	config                     Config
	porcupine                  bool // a world for check.Linearizable: few clients, one request at a time, all with ids
}

// genesis is when worlds begin: not 0, and not the edge of any window.
const genesis = 1_789_000_000_123_456

func newWorld(seed uint64, s *story) *world {
	w := &world{seed: seed, random: rand.New(rand.NewPCG(seed, 0x57147)), story: s, now: genesis, leader: -1}
	w.tally.worlds = 1
	w.shape = w.newShape()
	w.newest = w.random.Uint64N(3)
	w.log = newLog()
	w.judge = newJudge()
	for i := range w.shape.replicas {
		w.replicas = append(w.replicas, w.newReplica(i))
	}
	for i := range w.shape.clients {
		w.clients = append(w.clients, &client{number: i})
	}
	w.tellf("%d replicas, %d clients, %d faults in 1,000 steps, %+v", w.shape.replicas, w.shape.clients,
		w.shape.faults, w.shape.config)
	return w
}

func (w *world) newShape() shape {
	r := w.random
	s := shape{
		replicas: 1 + r.IntN(3),
		clients:  2 + r.IntN(20),
		perCall:  1 + r.IntN(20),
		steps:    600,
		faults:   []int{0, 20, 60, 150}[r.IntN(4)],
		config: Config{
			MaxBatch: []int{1, 3, 16, 4096}[r.IntN(4)],
			SumEvery: []int{5, 50, 4096}[r.IntN(3)],
			Policies: func() *policy.Revision { panic("a world tells its sequencers itself") },
		}.withDefaults(),
	}
	if w.seed%20 == 0 {
		s.porcupine, s.perCall, s.clients, s.faults, s.steps = true, 1, 12, 60, 3000
	}
	return s
}

// play runs the world to its end and returns the first violation.
func (w *world) play() error {
	for range w.shape.steps {
		w.step++
		if err := w.act(); err != nil {
			return w.failed(err)
		}
	}
	if err := w.heal(); err != nil {
		return w.failed(err)
	}
	if err := w.judge.settle(w); err != nil {
		return fmt.Errorf("after healing: %w", err)
	}
	return nil
}

func (w *world) failed(err error) error { return fmt.Errorf("step %d: %w", w.step, err) }

// act makes one thing happen.
func (w *world) act() error {
	if w.random.IntN(1000) < w.shape.faults {
		return w.fault()
	}
	r := w.replicas[w.random.IntN(len(w.replicas))]
	switch {
	case w.leader < 0 && w.random.IntN(8) == 0:
		return w.elect(r.number)
	case w.leader >= 0 && w.random.IntN(4) > 0:
		r = w.replicas[w.leader]
	}
	switch n := w.random.IntN(100); {
	case n < 30:
		w.call(r)
		return nil
	case n < 55:
		return w.turn(r)
	case n < 70:
		return w.commitOldest()
	case n < 90:
		return w.hear(r)
	case n < 91:
		w.takePicture(r)
		return nil
	case n < 92:
		if w.random.IntN(2) == 0 {
			w.publish()
		}
		w.hearPolicies(w.replicas[w.random.IntN(len(w.replicas))])
		return nil
	case n < 93:
		w.beginHandover()
		return nil
	}
	return w.pass(w.random.Int64N(150_000))
}

// pass advances time; clients give up at their deadline.
func (w *world) pass(micros int64) error {
	w.now += micros
	for _, c := range w.clients {
		if err := w.giveUp(c); err != nil {
			return err
		}
	}
	return nil
}

// heal ends all faults, lets every client learn the outcomes of its requests, and brings all replicas to the end of the
// log. A world that cannot do so in a few rounds has no liveness.
func (w *world) heal() error {
	w.healing = true
	w.tellf("the world heals")
	w.publish()
	for _, r := range w.replicas {
		if err := w.restart(r); err != nil {
			return err
		}
		if r.ahead = 0; r.frozenAt != 0 {
			w.stand(r)
		}
		r.knows = w.newest
	}
	if w.leader < 0 {
		if err := w.elect(w.random.IntN(len(w.replicas))); err != nil {
			return err
		}
	}
	for range 400 {
		w.step++
		if w.atRest() {
			return w.readEverything()
		}
		if err := w.round(); err != nil {
			return err
		}
	}
	return fmt.Errorf("400 rounds without a fault are not enough to answer every client")
}

// round makes everything happen once, in the best order.
func (w *world) round() error {
	owner := w.replicas[w.leader]
	for _, c := range w.clients {
		w.ask(c, owner)
	}
	for _, r := range w.replicas {
		r.leads = r == owner
		if err := w.turn(r); err != nil {
			return err
		}
	}
	if err := w.commitOldest(); err != nil {
		return err
	}
	for _, r := range w.replicas {
		if err := w.hearAll(r); err != nil {
			return err
		}
	}
	return w.pass(20_000)
}

func (w *world) atRest() bool {
	for _, c := range w.clients {
		if c.waits != nil || len(c.again) > 0 {
			return false
		}
	}
	for _, r := range w.replicas {
		if !r.seq.idle() || r.seq.state == opening {
			return false
		}
	}
	return true
}

// readEverything asks for the state of every counter; the judge compares it with its own books.
func (w *world) readEverything() error {
	reads := &client{number: len(w.clients)}
	w.clients = append(w.clients, reads)
	for _, name := range theNames {
		for _, key := range theKeys {
			reads.again = append(reads.again, w.newOperation(shard.Get, false, charge(name, key, 1)))
		}
	}
	for range 400 {
		w.step++
		if len(reads.again) == 0 && reads.waits == nil {
			return nil
		}
		if err := w.round(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the healed shard does not answer")
}

func (w *world) tellf(format string, args ...any) {
	if w.story != nil {
		w.story.lines = append(w.story.lines, fmt.Sprintf("%5d  ", w.step)+fmt.Sprintf(format, args...))
	}
}

func (w *world) wall() time.Time { return time.UnixMicro(w.now) }

// theLimits are the policies of every world: small numbers and short windows, so that they fill and roll over.
var theLimits = map[string][]limit.Limit{
	"life":   {{Algorithm: limit.Lifetime, Quota: 40}},
	"free":   {{Algorithm: limit.Unlimited}},
	"window": {{Algorithm: limit.FixedWindow, Quota: 6, Period: 900e3}},
	"first":  {{Algorithm: limit.FixedWindowFirstHit, Quota: 5, Period: 700e3}},
	"bucket": {{Algorithm: limit.TokenBucket, Quota: 6, Period: 1000e3, Count: 7, Initial: 6}},
	"log": {{Algorithm: limit.SlidingLog, Quota: 7, Period: 1300e3},
		{Algorithm: limit.GCRA, Quota: 5, Period: 300e3, Count: 3}},
	"weights": {{Algorithm: limit.SlidingWindow, Quota: 9, Period: 800e3}},
	"buckets": {{Algorithm: limit.SlidingBuckets, Quota: 8, Period: 1000e3, Bucket: 250e3},
		{Algorithm: limit.Unlimited}},
}

// theLockouts are the lockouts of some of them.
var theLockouts = map[string]*policy.Lockout{
	"window": {After: 2, Base: 150e3, Factor: 2, Max: 1000e3, ForgiveAfter: 3000e3},
	"log":    {After: 1, Base: 100e3, Factor: 3, Max: 2000e3, ForgiveAfter: 1000e3, StepDown: true},
}

// theNames are the names of theLimits; "life" and "free" give nothing back and are never reset.
var theNames = []string{"window", "first", "bucket", "log", "weights", "buckets", "life", "free"}

const resettable = 6

var theKeys = []string{"ann", "bob"}

// Ids are remembered for less time than a world lasts, except with limits that never forget: the clients' knowledge of
// these is added up in the end.
const shortRetention, longRetention limit.Span = 2e6, 600e6

func theRetention(name string) limit.Span {
	if name == "life" || name == "free" {
		return longRetention
	}
	return shortRetention
}

func charge(policy, key string, cost uint64) model.Charge {
	return model.Charge{Policy: policy, Key: key, Cost: cost}
}
