package shard

import (
	"fmt"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// Record is what a shard keeps under one key: the encoded state of a policy's limits, or an idempotency record.
type Record struct {
	Value    []byte
	ForgetAt limit.Time // from this instant on the record says nothing any more and is dropped; limit.Forever: never
}

// Put is one effect: the new absolute record of one key, or its end.
type Put struct {
	Key    string // internal: made by this package only
	Record        // a nil Value forgets the key
}

// Records is what can be looked up: a State, or an overlay on top of it.
type Records interface {
	// Lookup finds a record. The caller must not change its Value, and must not keep it beyond the evaluation.
	Lookup(key string) (Record, bool)
}

// View is what an evaluation may read: committed state, or an overlay on top of it.
type View interface {
	Records
	// Full reports whether the memory cap is reached: then keys never seen before are refused, and none is evicted.
	Full() bool
}

// Stamp is the place and the one instant of a batch. Only Now counts; the rest is named in the answers.
type Stamp struct {
	Position
	Now limit.Time
}

// aheadMost is how far the time in an idempotency id may lie ahead of shard time (SEMANTICS X2).
const aheadMost = limit.Span(60e6)

// Evaluate decides requests in their order at one instant and returns an answer to each, and the effects: one Put
// for each key whose record changed. It reads nothing but its arguments and changes none of them.
//
// When the effects have grown to an entry's size it stops: the answers are then those of the first requests, at
// least one, and the rest belong into the next batch.
func Evaluate(view View, policies *policy.Set, requests []Request, at Stamp) ([]Result, []Put) {
	e := evaluation{view: view, policies: policies, at: at}
	e.scratch, e.next, e.charges, e.met = e.first.scratch[:0], e.first.next[:0], e.first.charges[:0], e.first.met[:0]
	e.all = e.first.all[:0]
	results := make([]Result, len(requests))
	for i := range requests {
		if i > 0 && e.bytes > MaxEntryBytes-MaxEntryBytes/8 {
			results = results[:i]
			break
		}
		e.decide(&requests[i], &results[i])
	}
	return results, e.puts()
}

// evaluation is the working set of one batch: every counter it touched, decoded once.
type evaluation struct {
	view     View
	policies *policy.Set
	at       Stamp
	all      []*counter           // that this batch has met
	counters map[string]*counter  // the same by key, once they are too many to look at each
	order    []*counter           // those that are effects
	written  map[string]Put       // idempotency records and documents of this batch, by record key
	keys     []string             // theirs, in order
	sessions map[Session]*session // that this batch has met
	met      []*session           // the same, in order
	opened   uint32               // sessions
	index    uint32               // of the last counted request
	bytes    int                  // of the effects so far, roughly
	scratch  []byte
	next     []limit.State // of the request under way, in the order of its statuses
	charges  []charge      // of the request under way, in the order of its entries
	blocked  bool          // the request under way meets a block that denies
	extras   bool          // the request under way has a counter with extras

	// Memory for what there are many of.
	slabs struct {
		statuses slab[LimitStatus]
		limits   slab[counted]
		counters slab[counter]
		tallies  slab[Tallied]
	}
	first struct { // for the slices above: few batches need more for one request
		scratch [96]byte
		next    [2]limit.State
		charges [2]charge
		all     [4]*counter
		met     [1]*session
	}
}

// scanned is how many counters are looked at one by one before there is a map of them: few batches touch that many keys,
// unless they are large.
const scanned = 8

// charge is an entry of the request under way: whose counter it is, and the limits as its tier, or the key's override,
// has them. The policy is inlinePolicy when the request brought the limits along.
type charge struct {
	counter *counter
	policy  *policy.Policy
	limits  []policy.Limit
}

// decide answers one request. One of a session first passes what the session remembers; a read never does, nor does a
// message of an operation on several shards, which has records of its own. An answer is large: what every request passes
// through makes it in its place, and does not hand it up from function to function.
func (e *evaluation) decide(r *Request, answer *Result) {
	if r.Operation != nil {
		*answer = e.operate(r)
		return
	}
	if r.Session != (Session{}) && r.Op.Changes() {
		e.decideInSession(r, answer)
	} else {
		e.decideInTime(r, answer)
	}
}

func (e *evaluation) decideInTime(r *Request, answer *Result) {
	if r.NotAfter != 0 && e.at.Now > r.NotAfter {
		answer.Err = &Error{Code: TooLate, Message: "the request arrived after its time; send it again"}
		return
	}
	switch r.Op {
	case Check, Peek, Get, Reset, Count, Partial, Reserve, Settle, SetUsed, AddUsed, Block, Unblock, PutOverride,
		DeleteOverride, ReadAudit, Tally, ReadTally:
		if answer.Err = e.termsProblem(r); answer.Err != nil {
			return
		}
		e.decideKeys(r, answer)
	case OpenSession:
		*answer = e.openSession(r)
	case Fetch:
		*answer = e.fetch(r)
	case Swap:
		*answer = e.swap(r)
	default:
		answer.Err = &Error{Code: NotBuilt, Message: fmt.Sprintf(
			"operation %d is not known to this version: run a newer one", r.Op)}
	}
}

func (e *evaluation) decideKeys(r *Request, answer *Result) {
	switch {
	case e.at.Shard == System:
		answer.Err = Invalidf("", "the system shard holds documents and no keys")
	case r.ID == "":
		e.decideNew(r, answer)
	default:
		e.decideByID(r, answer)
	}
}

// decideByID decides a request with an idempotency id: once.
func (e *evaluation) decideByID(r *Request, answer *Result) {
	e.scratch = appendAnswerKey(e.scratch[:0], r.Namespace, r.ID)
	key := string(e.scratch)
	if record, found := e.lookup(key); found {
		*answer = e.replay(record.Value, r)
		return
	}
	if r.Op.charges() && e.view.Full() {
		answer.Err = e.full()
		return
	}
	e.decideNew(r, answer)
	if answer.Err == nil && answer.Decision.Index != 0 {
		e.record(key, r, &answer.Decision)
	}
}

// lookup finds a living record that is written whole, as the requests before this one have left it.
func (e *evaluation) lookup(key string) (Record, bool) {
	if p, found := e.written[key]; found {
		return p.Record, true
	}
	record, found := e.view.Lookup(key)
	return record, found && record.ForgetAt > e.at.Now
}

// write makes p the record of its key, in the place of what an earlier request of the batch wrote there.
func (e *evaluation) write(p Put) {
	if e.written == nil {
		e.written = make(map[string]Put)
	}
	if before, again := e.written[p.Key]; again {
		e.bytes -= len(before.Key) + len(before.Value) + 20
	} else {
		e.keys = append(e.keys, p.Key)
	}
	e.written[p.Key] = p
	e.bytes += len(p.Key) + len(p.Value) + 20
}

func (e *evaluation) replay(value []byte, r *Request) Result {
	d, same, err := decodeAnswer(e.at.Shard, value, r)
	if err != nil {
		panic(err) // records are written by this package and guarded by checksums
	}
	if !same {
		return Result{Err: &Error{Code: IDReused, Field: "idempotency_id",
			Message: fmt.Sprintf("%q was used for another request; a new request needs a new id", r.ID)}}
	}
	return Result{Decision: d}
}

// record writes the answer of an id beside its effects, for the longest retention of the request's policies. An id
// that carries a time ahead of ours is remembered from then on: until it is old enough to be refused.
func (e *evaluation) record(key string, r *Request, d *Decision) {
	made, _ := timeOfUUIDv7(r.ID)
	forgetAt := max(e.at.Now, made) + limit.Time(e.retention(r))
	e.write(Put{Key: key, Record: Record{Value: encodeAnswer(r, d), ForgetAt: forgetAt}})
}

func (e *evaluation) retention(r *Request) limit.Span {
	var longest limit.Span
	for i := range r.Entries {
		if p, ok := e.policyOf(&r.Entries[i]); ok {
			longest = max(longest, p.Retention)
		} else {
			longest = max(longest, inlinePolicy.Retention)
		}
	}
	return longest
}

// newDecision is what a request begins with: allowed so far.
func (e *evaluation) newDecision() Decision {
	return Decision{Allowed: true, DecidedAt: e.at.Now, Position: e.at.Position}
}

// decideNew decides a request that has no recorded answer.
func (e *evaluation) decideNew(r *Request, answer *Result) {
	switch r.Op {
	case ReadAudit:
		*answer = e.readAudit()
		return
	case Tally, ReadTally:
		e.tally(r, answer)
		return
	}
	d := &answer.Decision
	d.Allowed, d.DecidedAt, d.Position = true, e.at.Now, e.at.Position
	err := e.decideEntries(r, r.Op, d)
	if err == nil {
		err = e.checkIDTime(r)
	}
	if err != nil {
		*answer = Result{Err: err}
		return
	}
	switch r.Op {
	case Check, Count, Partial, Reserve:
		if err := e.conclude(r, d); err != nil {
			*answer = Result{Err: err}
			return
		}
	case Peek:
		if !d.Allowed {
			e.exactWaits(r, Peek, d)
		}
	case Settle:
		*answer = e.settle(r, *d)
		return
	case Reset, SetUsed, AddUsed, Block, Unblock, PutOverride, DeleteOverride:
		*answer = e.adjust(r, *d)
		return
	}
	if e.extras {
		e.showExtras(d)
	}
}

// conclude does what a request that may count comes to: it is counted, or nothing is, or its denial is.
func (e *evaluation) conclude(r *Request, d *Decision) *Error {
	switch {
	case d.Allowed && r.Op == Reserve:
		return e.reserve(r, d)
	case d.Allowed:
		e.count(d)
	default:
		e.deny(r, r.Op, d)
	}
	return nil
}

// checkIDTime refuses ids whose own time says that their record may be gone, or was never made by an honest clock.
func (e *evaluation) checkIDTime(r *Request) *Error {
	if r.ID == "" {
		return nil
	}
	made, ok := timeOfUUIDv7(r.ID)
	if !ok {
		return nil
	}
	if made > e.at.Now+limit.Time(aheadMost) {
		return Invalidf("idempotency_id", "%q carries a time more than 60 s ahead of shard time", r.ID)
	}
	if retention := e.retention(r); made+limit.Time(retention) <= e.at.Now {
		return &Error{Code: IDExpired, Field: "idempotency_id", Message: fmt.Sprintf(
			"%q is older than the %d s for which ids are remembered: whether it ran can no longer be told",
			r.ID, retention/1e6)}
	}
	return nil
}

// decideEntries asks every limit of every entry and keeps the states as op would make them. It counts nothing yet: d is
// what would be answered.
func (e *evaluation) decideEntries(r *Request, op Op, d *Decision) *Error {
	e.next, e.charges, e.blocked, e.extras = e.next[:0], e.charges[:0], false, false
	for i := range r.Entries {
		if err := e.decideEntry(r, i, op, d); err != nil {
			return err
		}
	}
	if e.blocked {
		d.Allowed = false
	}
	return nil
}

func (e *evaluation) decideEntry(r *Request, i int, op Op, d *Decision) *Error {
	entry := &r.Entries[i]
	ch, err := e.charge(r, i, op)
	if err != nil {
		return err
	}
	c := ch.counter
	if c.empty() && !c.known && op.charges() && e.view.Full() {
		return e.full()
	}
	for j := range e.charges {
		if e.charges[j].counter == c {
			return Invalidf(fmt.Sprintf("entries[%d]", i), "repeats the policy and key of an earlier entry; add the costs up")
		}
	}
	e.charges = append(e.charges, ch)
	if d.Limits == nil {
		d.Limits = e.slabs.statuses.take(len(ch.limits) * (len(r.Entries) - i))[:0]
	}
	if c.extras != nil {
		e.extras = true
		e.meetBlock(op, &ch, d)
	}
	cost := entry.Cost
	if op == Partial {
		if cost = e.room(&ch, cost); cost == 0 {
			op, cost = Peek, 1 // which limits have no room, and until when
		}
	}
	for j := range ch.limits {
		e.decideLimit(op, &ch, j, entry, cost, d)
	}
	return nil
}

func (e *evaluation) full() *Error {
	return &Error{Code: MemoryFull, Message: fmt.Sprintf(
		"shard %d holds as many records as it may: new keys and ids are refused until old ones end", e.at.Shard)}
}

func (e *evaluation) decideLimit(op Op, ch *charge, j int, entry *Entry, cost uint64, d *Decision) {
	l := &ch.limits[j]
	s := ch.counter.at(j, l, e.at.Now)
	status := LimitStatus{Policy: entry.Policy, Limit: l.Name, Key: entry.Key, Quota: l.Quota,
		Unlimited: l.Unlimited || l.Algorithm == limit.Unlimited, Shadow: l.Shadow || ch.policy.Shadow}
	if status.Unlimited {
		status.Quota = 0
	}
	status.Uncounted = l.Algorithm == limit.Concurrency && (op == Check || op == Count || op == Partial)
	if op == Check && !l.Unlimited && l.Algorithm != limit.Concurrency {
		// What ask does too. It is what is asked most, and to hand a State and a Verdict on costs a twentieth of a decision.
		s, status.Verdict = limit.Take(l.Limit, s, cost, e.at.Now)
	} else {
		s, status.Verdict = ask(op, l, s, cost, e.at.Now)
	}
	if op == Partial {
		status.Granted = cost
	}
	e.next = append(e.next, s)
	d.Limits = append(d.Limits, status)
	if status.Allowed || !op.decides() {
		return
	}
	if status.Shadow {
		d.ShadowDenied = true
		return
	}
	d.Allowed = false
	d.RetryAfter = longer(d.RetryAfter, status.RetryAfter)
}

// longer returns the wait that satisfies both; limit.Never outlasts all.
func longer(a, b limit.Span) limit.Span {
	if a == limit.Never || b == limit.Never {
		return limit.Never
	}
	return max(a, b)
}

// count makes the states the request would lead to those of its keys.
func (e *evaluation) count(d *Decision) {
	e.index++
	d.Index = e.index
	n := 0
	for i := range e.charges {
		ch := &e.charges[i]
		for j := range ch.limits {
			ch.counter.set(j, &ch.limits[j], e.next[n], e.at.Now)
			n++
		}
		e.touch(ch.counter)
	}
}

// undo makes a denial's statuses show what is, not what would have been: nothing was counted, by no limit. Those of a
// Partial show whether the least is there.
func (e *evaluation) undo(r *Request, op Op, d *Decision) {
	n := 0
	for i, ch := range e.charges {
		for j := range ch.limits {
			if l, status := &ch.limits[j], &d.Limits[n]; status.Allowed || op == Partial {
				_, status.Verdict = ask(Peek, l, ch.counter.at(j, l, e.at.Now), op.least(&r.Entries[i]), e.at.Now)
			}
			d.Limits[n].Granted = 0
			n++
		}
	}
}

// statuses makes the statuses show the limits as they are now, as Get does.
func (e *evaluation) statuses(d *Decision) {
	n := 0
	for i := range e.charges {
		ch := &e.charges[i]
		e.extras = e.extras || ch.counter.extras != nil
		for j := range ch.limits {
			l := &ch.limits[j]
			_, d.Limits[n].Verdict = ask(Get, l, ch.counter.at(j, l, e.at.Now), 0, e.at.Now)
			n++
		}
	}
	if e.extras {
		e.showExtras(d)
	}
}

// counter returns the working copy of one key's counter, decoded from the view when it is first touched, with the holds
// ended that have expired since it was written. The limits give names and zones to what is decoded.
func (e *evaluation) counter(namespace string, entry *Entry, p *policy.Policy, limits []policy.Limit) *counter {
	e.scratch = appendCounterKey(e.scratch[:0], namespace, policyPart(entry), entry.Key)
	if c := e.metCounter(e.scratch); c != nil {
		return c
	}
	c := &e.slabs.counters.take(1)[0]
	c.key, c.size, c.policy = string(e.scratch), len(e.scratch)+64*len(limits), p
	c.limits = e.slabs.limits.take(len(limits))[:0]
	if record, ok := e.view.Lookup(c.key); ok && record.ForgetAt > e.at.Now {
		c.known = true
		c.size += len(record.Value)
		if err := c.decode(record.Value, limits); err != nil {
			panic(err) // records are written by this package and guarded by checksums
		}
		c.expire(e.at.Now)
	}
	e.meetCounter(c)
	return c
}

// metCounter finds the working copy of a counter that the batch has met; nil: it has not.
func (e *evaluation) metCounter(key []byte) *counter {
	if e.counters != nil {
		return e.counters[string(key)]
	}
	for _, c := range e.all {
		if c.key == string(key) {
			return c
		}
	}
	return nil
}

func (e *evaluation) meetCounter(c *counter) {
	if e.counters != nil {
		e.counters[c.key] = c
		return
	}
	if e.all = append(e.all, c); len(e.all) > scanned {
		e.counters = make(map[string]*counter, 8*scanned)
		for _, c := range e.all {
			e.counters[c.key] = c
		}
	}
}

// touch puts a counter on the list of effects, once.
func (e *evaluation) touch(c *counter) {
	if !c.listed {
		c.listed = true
		e.order = append(e.order, c)
		e.bytes += c.size
	}
}

// puts encodes the effects, each key once, in the order in which they were first touched.
func (e *evaluation) puts() []Put {
	puts := make([]Put, 0, len(e.order)+len(e.keys)+len(e.met))
	var b []byte // of all counters' records, one behind the other
	for i, c := range e.order {
		if left := len(e.order) - i; cap(b)-len(b) < recordRoom {
			b = make([]byte, 0, recordRoom*min(left, slabMost))
		}
		var p Put
		switch p, b = c.appendTo(b, e.at.Now); {
		case !c.empty():
			puts = append(puts, p)
		case c.known:
			puts = append(puts, Put{Key: c.key})
		}
	}
	for _, key := range e.keys {
		puts = append(puts, e.written[key])
	}
	for _, s := range e.met {
		if s.changed() {
			puts = append(puts, s.put(e.at.Now))
		}
	}
	return puts
}
