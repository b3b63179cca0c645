package shard

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stint-io/stint/limit"
)

// TestCopiesAreCountedOnce sends requests in sessions over a network that loses, delays, repeats and reorders, to
// owners that fail with entries in progress. Callers retry until they give up. A number is counted at most once; never
// after its caller heard "no"; and exactly once if its caller heard "yes".
//
// The counts are checked in the shard at the end: besides the shared key, with a limit that denies now and then, each
// request has a key of its own.
func TestCopiesAreCountedOnce(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	worlds := 30 * times()
	met := map[string]int{}
	for range worlds {
		n := newCopies(t, rnd, met)
		for range 250 {
			n.step()
		}
		n.end()
	}
	t.Log(met)
	for _, event := range []string{"yes", "no", "gave up", "no from a copy", "counted before", "late copy refused",
		"session gone", "owner failed", "reset", "copy with an id", "no, then a copy refused", "unknown",
		"the same hold or grant again", "the same tally again", "the same check again"} {
		if met[event] == 0 {
			t.Errorf("no world met this: %s", event)
		}
	}
}

// numbered is one request of a session with all its copies, and its caller's knowledge.
type numbered struct {
	request Request
	key     string    // used by no other request
	copies  int       // sent
	heard   string    // "": no answer yet, and still retrying
	first   *Decision // when it was counted
}

// copies is a world with one entry node, the network behind it, and the node's knowledge.
type copies struct {
	*owner
	rnd     *rand.Rand
	met     map[string]int
	now     limit.Time
	session Session
	open    []*numbered          // of the session, by number: first..first+len-1
	all     map[string]*numbered // by key
	network []Request            // in transit to the owner
	answers [][]answered         // of the pending entries
	counted map[string]bool      // by key
	acked   map[Session]uint64   // the highest that the owner received
}

type answered struct {
	request Request
	result  Result
}

func newCopies(t *testing.T, rnd *rand.Rand, met map[string]int) *copies {
	gate := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 4})
	tally := onePolicy(limit.Limit{Algorithm: limit.Unlimited})
	gate.Name, tally.Name = "gate", "tally"
	c := &copies{owner: &owner{world: newWorld(t, gate, tally), overlay: map[string]Record{}}, rnd: rnd, met: met,
		now: origin, all: map[string]*numbered{}, counted: map[string]bool{}, acked: map[Session]uint64{}}
	c.renew()
	return c
}

func (c *copies) step() {
	c.now += limit.Time(1 + c.rnd.IntN(int(second)))
	switch n := c.rnd.IntN(200); {
	case n < 60:
		c.begin()
	case n < 100:
		c.again()
	case n < 140:
		c.batch()
	case n < 175:
		c.commit()
	case n < 180:
		c.fail()
	case n < 188:
		c.met["reset"]++
		c.decideNow(Request{Op: Reset, Namespace: "default", Entries: []Entry{{Policy: "gate", Key: "all"}}})
		if len(c.open) > 0 {
			c.countBeside(c.open[c.rnd.IntN(len(c.open))])
		}
	case n < 199:
		c.giveUp()
	case c.rnd.IntN(2) == 0:
		c.now += limit.Time(11 * minute)
	}
}

// renew opens a session. The requests of the previous one are lost to their callers, which may retry in this one.
func (c *copies) renew() {
	for _, r := range c.open {
		c.finish(r, "gave up")
	}
	results := c.decideNow(Request{Op: OpenSession})
	c.session, c.open = results[0].Decision.Answer().Session, nil
}

// decideNow has requests decided and committed, after all pending entries.
func (c *copies) decideNow(requests ...Request) []Result {
	for len(c.pending) > 0 {
		c.commit()
	}
	results := c.decide(c.now, requests)
	c.installOldest()
	return results
}

// begin sends a new request, once.
func (c *copies) begin() {
	r := &numbered{key: fmt.Sprint("request ", len(c.all))}
	r.request = Request{Op: Check, Namespace: "default", Session: c.session, Number: uint64(len(c.open) + 1),
		Entries: []Entry{{Policy: "gate", Key: "all", Cost: 1}, {Policy: "tally", Key: r.key, Cost: 1}}}
	switch c.rnd.IntN(9) {
	case 0:
		r.request.ID = r.key
	case 1, 2:
		r.request.NotAfter = c.now + limit.Time(c.rnd.IntN(int(10*second)))
	case 3:
		r.request.Entries[0].Policy = "nobody" // an error until the policy exists
	case 4:
		r.request.Op, r.request.Hold = Reserve, &HoldTerms{TTL: MaxHoldTTL}
	case 5:
		r.request.Op = Partial
	case 6:
		r.request.Op, r.request.Tally = Tally, &TallyTerms{Verb: TallyAdd, Amount: 1}
		r.request.Entries = []Entry{{Policy: "tally", Key: r.key, Cost: 1, Limits: TallyLimits}}
	}
	c.open, c.all[r.key] = append(c.open, r), r
	c.send(r, false)
}

// again sends one or several more copies of a request with a waiting caller.
func (c *copies) again() {
	if len(c.open) == 0 {
		return
	}
	r := c.open[c.rnd.IntN(len(c.open))]
	if r.heard == "" {
		for range 1 + c.rnd.IntN(2) {
			c.send(r, true)
		}
	}
}

// ownKey returns the key that no other request uses.
func ownKey(r *Request) string { return r.Entries[len(r.Entries)-1].Key }

// others is the amount that another caller adds at once to the key of a tally.
const others = 1000

// countBeside changes a tally, so that the answer to a request cannot be derived from it.
func (c *copies) countBeside(r *numbered) {
	if one := r.request; one.Op == Tally {
		one.Session, one.Number, one.NotAfter = Session{}, 0, 0
		one.Tally = &TallyTerms{Verb: TallyAdd, Amount: others}
		c.decideNow(one)
	}
}

func (c *copies) send(r *numbered, retry bool) {
	one := r.request
	one.Retry = retry
	for _, o := range c.open {
		if o.heard == "" {
			break
		}
		one.Acked = min(one.Acked+1, one.Number-1)
	}
	r.copies++
	if r.copies > 1 && one.ID != "" {
		c.met["copy with an id"]++
	}
	if c.rnd.IntN(6) > 0 {
		c.network = append(c.network, one)
	}
}

// batch has the owner decide some requests in transit, in any order. A request with Retry may arrive again.
func (c *copies) batch() {
	var requests []Request
	for range min(len(c.network), 1+c.rnd.IntN(8)) {
		i := c.rnd.IntN(len(c.network))
		one := c.network[i]
		if !one.Retry || c.rnd.IntN(3) > 0 {
			c.network = slices.Delete(c.network, i, i+1)
		}
		if one.Entries[0].Policy == "nobody" && c.rnd.IntN(3) > 0 {
			one.Entries = slices.Clone(one.Entries)
			one.Entries[0].Policy = "gate"
		}
		requests = append(requests, one)
	}
	if len(requests) == 0 {
		return
	}
	var answers []answered
	for i, result := range c.decide(c.now, requests) {
		answers = append(answers, answered{requests[i], result})
	}
	c.answers = append(c.answers, answers)
}

// commit installs the oldest pending entry. Its answers become valid, and most callers receive them.
func (c *copies) commit() {
	if len(c.pending) == 0 {
		return
	}
	c.installOldest()
	if len(c.answers) == 0 {
		return
	}
	answers := c.answers[0]
	c.answers = c.answers[1:]
	session := c.session
	for _, a := range answers {
		c.judge(a)
		if c.rnd.IntN(3) > 0 {
			c.hear(a)
		}
	}
	for name := range c.acked {
		c.checkRecord(name)
	}
	if c.session == session && c.rnd.IntN(40) == 0 {
		c.renew()
	}
}

// judge compares a decision with the earlier ones.
func (c *copies) judge(a answered) {
	r := c.all[ownKey(&a.request)]
	counts := a.result.Err == nil && a.result.Decision.Index != 0 && !a.result.Decision.Replayed
	switch {
	case counts && c.counted[r.key]:
		c.Fatalf("%+v is counted twice", a)
	case counts && r.heard == "no":
		c.Fatalf("%+v is counted after its caller heard no", a)
	case counts:
		c.counted[r.key] = true
		r.first = &a.result.Decision
	case a.result.Err == nil && a.result.Decision.Replayed:
		c.met["counted before"]++
		if !c.counted[r.key] {
			c.Fatalf("%+v was never counted", a)
		}
		c.judgeReplay(a, r)
	case a.result.Err != nil && a.result.Err.Code == TooLate && r.heard == "no":
		c.met["no, then a copy refused"]++
	case a.result.Err != nil && a.result.Err.Code == TooLate && r.heard != "":
		c.met["late copy refused"]++
	}
	if a.result.Err == nil || a.result.Err.Code != SessionGone {
		c.acked[a.request.Session] = max(c.acked[a.request.Session], a.request.Acked)
	}
}

// judgeReplay checks that a copy gets the first answer, as long as the caller may still retry.
func (c *copies) judgeReplay(a answered, r *numbered) {
	d := &a.result.Decision
	if r.request.Op == Tally {
		c.met["the same tally again"]++
		if *d.Tallied != *r.first.Tallied {
			c.Fatalf("a copy is answered %+v, it was counted as %+v", *d.Tallied, *r.first.Tallied)
		}
		return
	}
	if r.request.Op == Check {
		c.met["the same check again"]++
		first := *r.first
		first.Limits = slices.Clone(first.Limits)
		first.Limits[0].Policy = a.request.Entries[0].Policy // batch may have renamed it
		if first.Replayed = true; !reflect.DeepEqual(*d, first) {
			c.Fatalf("a copy of a check is answered %+v, it was counted as %+v", *d, first)
		}
		return
	}
	if !r.request.Op.answersOnce() || d.HoldExpires == 0 && d.Index == 0 &&
		c.now >= r.first.DecidedAt+limit.Time(sessionRetention) {
		return
	}
	c.met["the same hold or grant again"]++
	if d.Position != r.first.Position || d.Index != r.first.Index || d.HoldExpires != r.first.HoldExpires ||
		d.Limits[1].Granted != r.first.Limits[1].Granted {
		c.Fatalf("a copy is answered %+v, it was counted as %+v", *d, *r.first)
	}
}

// hear is the caller's handling of an answer that arrived.
func (c *copies) hear(a answered) {
	r := c.all[ownKey(&a.request)]
	switch err := a.result.Err; {
	case r.heard != "":
	case err == nil && a.result.Decision.Allowed:
		c.finish(r, "yes")
	case err != nil && err.Code == SessionGone:
		c.met["session gone"]++
		if a.request.Session == c.session {
			c.renew()
		}
	case err != nil && err.MaybeApplied():
		c.Fatalf("%+v: no number is that far ahead", a)
	case a.request.Retry:
		c.met["no from a copy"]++
		c.finish(r, "no")
	case r.copies == 1:
		c.finish(r, "no")
	default:
		c.met["unknown"]++ // a "no" to one copy says nothing about the others
	}
}

func (c *copies) finish(r *numbered, heard string) {
	if r.heard == "" {
		r.heard = heard
		c.met[heard]++
		if heard == "yes" && !c.counted[r.key] || heard == "no" && c.counted[r.key] {
			c.Fatalf("the caller of %q hears %s, counted: %v", r.key, heard, c.counted[r.key])
		}
	}
}

func (c *copies) giveUp() {
	if len(c.open) > 0 {
		c.finish(c.open[c.rnd.IntN(len(c.open))], "gave up")
	}
}

// fail ends the owner's epoch: pending entries and their answers are lost, and another owner opens.
func (c *copies) fail() {
	c.met["owner failed"]++
	c.pending, c.answers = nil, nil
	clear(c.overlay)
	c.append(EncodeEpochOpen(3, c.now, LevelNewest))
}

// checkRecord checks the size of a session's record, and that it has the reported acked number.
func (c *copies) checkRecord(name Session) {
	kept, size := recordOf(c.world, name)
	if kept == nil {
		return
	}
	if told := c.acked[name]; kept.acked > told || told-kept.acked >= sessionAckStep {
		c.Fatalf("session %v was told that %d are finished, its record says %d", name, told, kept.acked)
	}
	numbers := uint64(len(c.all)) - kept.acked
	if most := 20 + 2*(numbers/8+2) + 9*uint64(len(kept.tallies)) + uint64(kept.answerBytes()); uint64(size) > most {
		c.Fatalf("a record of %d bytes for %d numbers", size, numbers)
	}
}

// end lets everything arrive and checks the tallies.
func (c *copies) end() {
	for len(c.pending) > 0 {
		c.commit()
	}
	for len(c.network) > 0 {
		c.now += limit.Time(second)
		c.batch()
		for len(c.pending) > 0 {
			c.commit()
		}
	}
	audit(c, c.state)
	for key, r := range c.all {
		used := c.tally(r)
		if used > 1 || used == 1 != c.counted[key] || r.heard == "yes" && used != 1 || r.heard == "no" && used != 0 {
			c.Fatalf("%q has %d used; its caller heard %q", key, used, r.heard)
		}
		if r.request.Op == Reserve && c.now < origin+limit.Time(MaxHoldTTL) && c.held(key) != used {
			c.Fatalf("%q has %d used, and %d held", key, used, c.held(key))
		}
	}
}

func (c *copies) tally(r *numbered) uint64 {
	if r.request.Op != Tally {
		return c.look(r.key).Used
	}
	c.now++
	results := c.decideNow(Request{Op: ReadTally, Namespace: "default", Entries: r.request.Entries})
	return uint64(results[0].Decision.Tallied.Value % others)
}

func (c *copies) held(key string) uint64 { return c.look(key).Held }

func (c *copies) look(key string) LimitStatus {
	c.now++
	results := c.decideNow(Request{Op: Get, Namespace: "default", Entries: []Entry{{Policy: "tally", Key: key}}})
	return results[0].Decision.Limits[0]
}
