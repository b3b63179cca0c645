package shard

import (
	"fmt"
	"slices"

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
	e := evaluation{view: view, policies: policies, at: at, counters: make(map[string]*counter, len(requests))}
	results := make([]Result, 0, len(requests))
	for i := range requests {
		if i > 0 && e.bytes > MaxEntryBytes-MaxEntryBytes/8 {
			break
		}
		results = append(results, e.decide(&requests[i]))
	}
	return results, e.puts()
}

// evaluation is the working set of one batch: every counter it touched, decoded once.
type evaluation struct {
	view     View
	policies *policy.Set
	at       Stamp
	counters map[string]*counter
	order    []*counter
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
}

// charge is an entry of the request under way: whose counter it is, and the limits as its tier has them.
type charge struct {
	counter *counter
	limits  []policy.Limit
}

// decide answers one request. One of a session first passes what the session remembers; a read never does.
func (e *evaluation) decide(r *Request) Result {
	if r.Session != (Session{}) && (r.Op == Check || r.Op == Reset || r.Op == Swap) {
		return e.decideInSession(r)
	}
	return e.decideInTime(r)
}

func (e *evaluation) decideInTime(r *Request) Result {
	if r.NotAfter != 0 && e.at.Now > r.NotAfter {
		return Result{Err: &Error{Code: TooLate, Message: "the request arrived after its time; send it again"}}
	}
	switch r.Op {
	case Check, Peek, Get, Reset:
		return e.decideKeys(r)
	case OpenSession:
		return e.openSession(r)
	case Fetch:
		return e.fetch(r)
	case Swap:
		return e.swap(r)
	}
	return Result{Err: &Error{Code: NotBuilt, Message: fmt.Sprintf(
		"operation %d is not known to this version: run a newer one", r.Op)}}
}

func (e *evaluation) decideKeys(r *Request) Result {
	switch {
	case e.at.Shard == System:
		return Result{Err: Invalidf("", "the system shard holds documents and no keys")}
	case r.ID == "":
		return e.decideNew(r)
	}
	return e.decideByID(r)
}

// decideByID decides a request with an idempotency id: once.
func (e *evaluation) decideByID(r *Request) Result {
	e.scratch = appendAnswerKey(e.scratch[:0], r.Namespace, r.ID)
	key := string(e.scratch)
	if record, found := e.lookup(key); found {
		return e.replay(record.Value, r)
	}
	if r.Op == Check && e.view.Full() {
		return Result{Err: e.full()}
	}
	result := e.decideNew(r)
	if result.Err == nil && result.Decision.Index != 0 {
		e.record(key, r, &result.Decision)
	}
	return result
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
		if p, ok := e.policies.Lookup(r.Entries[i].Policy); ok {
			longest = max(longest, p.Retention)
		}
	}
	return longest
}

// decideNew decides a request that has no recorded answer.
func (e *evaluation) decideNew(r *Request) Result {
	d := Decision{Allowed: true, DecidedAt: e.at.Now, Position: e.at.Position}
	e.next, e.charges = e.next[:0], e.charges[:0]
	for i := range r.Entries {
		if err := e.decideEntry(r, i, &d); err != nil {
			return Result{Err: err}
		}
	}
	if err := e.checkIDTime(r); err != nil {
		return Result{Err: err}
	}
	switch {
	case r.Op == Reset:
		return e.reset(r, d)
	case r.Op == Check && d.Allowed:
		return e.count(d)
	case r.Op == Check && len(d.Limits) > 1:
		e.undo(r, &d)
	}
	return Result{Decision: d}
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

// decideEntry asks every limit of one entry and keeps the states as they would be. It counts nothing yet.
func (e *evaluation) decideEntry(r *Request, i int, d *Decision) *Error {
	entry := &r.Entries[i]
	p, ok := e.policies.Lookup(entry.Policy)
	if !ok {
		return &Error{Code: PolicyNotFound, Field: fmt.Sprintf("entries[%d].policy", i),
			Message: fmt.Sprintf("no policy is named %q; `stint policies` lists them", entry.Policy)}
	}
	limits, ok := p.Resolve(entry.Tier)
	if !ok {
		return Invalidf(fmt.Sprintf("entries[%d].tier", i), "policy %q has no tier %q", entry.Policy, entry.Tier)
	}
	c := e.counter(r.Namespace, entry, limits)
	if !c.known && len(c.limits) == 0 && r.Op == Check && e.view.Full() {
		return e.full()
	}
	if slices.ContainsFunc(e.charges, func(o charge) bool { return o.counter == c }) {
		return Invalidf(fmt.Sprintf("entries[%d]", i), "repeats the policy and key of an earlier entry; add the costs up")
	}
	e.charges = append(e.charges, charge{c, limits})
	if d.Limits == nil {
		d.Limits = make([]LimitStatus, 0, len(limits)*(len(r.Entries)-i))
	}
	for j := range limits {
		e.decideLimit(r.Op, p, c, j, &limits[j], entry, d)
	}
	return nil
}

func (e *evaluation) full() *Error {
	return &Error{Code: MemoryFull, Message: fmt.Sprintf(
		"shard %d holds as many records as it may: new keys and ids are refused until old ones end", e.at.Shard)}
}

func (e *evaluation) decideLimit(op Op, p *policy.Policy, c *counter, j int, l *policy.Limit, entry *Entry, d *Decision) {
	s := c.at(j, l, e.at.Now)
	status := LimitStatus{Policy: entry.Policy, Limit: l.Name, Key: entry.Key, Quota: l.Quota,
		Unlimited: l.Unlimited || l.Algorithm == limit.Unlimited, Shadow: l.Shadow || p.Shadow}
	if status.Unlimited {
		status.Quota = 0
	}
	s, status.Verdict = ask(op, l, s, entry.Cost, e.at.Now)
	e.next = append(e.next, s)
	d.Limits = append(d.Limits, status)
	if status.Allowed || op == Get || op == Reset {
		return
	}
	if status.Shadow {
		d.ShadowDenied = true
		return
	}
	d.Allowed = false
	d.RetryAfter = longer(d.RetryAfter, status.RetryAfter)
}

// ask puts an operation to one limit and returns the state it would lead to. What a tier has lifted counts all and
// denies nothing.
func ask(op Op, l *policy.Limit, s limit.State, cost uint64, now limit.Time) (limit.State, limit.Verdict) {
	var v limit.Verdict
	switch {
	case op == Check && l.Unlimited:
		s, v = limit.Add(l.Limit, s, cost, now)
	case op == Check:
		return limit.Take(l.Limit, s, cost, now)
	case op == Peek && !l.Unlimited:
		return s, limit.Peek(l.Limit, s, cost, now)
	default:
		v = limit.Status(l.Limit, s, now)
	}
	if l.Unlimited {
		v.Allowed, v.Remaining = true, 0
	}
	return s, v
}

// longer returns the wait that satisfies both; limit.Never outlasts all.
func longer(a, b limit.Span) limit.Span {
	if a == limit.Never || b == limit.Never {
		return limit.Never
	}
	return max(a, b)
}

// count makes the states the request would lead to those of its keys.
func (e *evaluation) count(d Decision) Result {
	e.index++
	d.Index = e.index
	n := 0
	for _, ch := range e.charges {
		for j := range ch.limits {
			ch.counter.set(j, &ch.limits[j], e.next[n])
			n++
		}
		e.touch(ch.counter)
	}
	return Result{Decision: d}
}

// undo makes a denial's statuses show what is, not what would have been: nothing was counted, by no limit.
func (e *evaluation) undo(r *Request, d *Decision) {
	n := 0
	for i, ch := range e.charges {
		for j := range ch.limits {
			if l, status := &ch.limits[j], &d.Limits[n]; status.Allowed {
				_, status.Verdict = ask(Peek, l, ch.counter.at(j, l, e.at.Now), r.Entries[i].Cost, e.at.Now)
			}
			n++
		}
	}
}

// reset puts the limits of the keys back to rest and answers with their states after it.
func (e *evaluation) reset(r *Request, d Decision) Result {
	if err := e.checkLimitName(r, &d); err != nil {
		return Result{Err: err}
	}
	e.index++
	d.Index = e.index
	n := 0
	for _, ch := range e.charges {
		ch.counter.reset(r.Limit)
		e.touch(ch.counter)
		for j := range ch.limits {
			l := &ch.limits[j]
			_, d.Limits[n].Verdict = ask(Get, l, ch.counter.at(j, l, e.at.Now), 0, e.at.Now)
			n++
		}
	}
	return Result{Decision: d}
}

func (e *evaluation) checkLimitName(r *Request, d *Decision) *Error {
	if r.Limit == "" {
		return nil
	}
	for i := range d.Limits {
		if d.Limits[i].Limit == r.Limit {
			return nil
		}
	}
	return Invalidf("limit", "policy %q has no limit %q", r.Entries[0].Policy, r.Limit)
}

// counter returns the working copy of one key's counter, decoded from the view when it is first touched.
func (e *evaluation) counter(namespace string, entry *Entry, limits []policy.Limit) *counter {
	e.scratch = appendCounterKey(e.scratch[:0], namespace, entry.Policy, entry.Key)
	if c, ok := e.counters[string(e.scratch)]; ok {
		return c
	}
	c := &counter{key: string(e.scratch), size: len(e.scratch) + 64*len(limits)}
	if record, ok := e.view.Lookup(c.key); ok && record.ForgetAt > e.at.Now {
		c.known = true
		c.size += len(record.Value)
		if err := c.decode(record.Value, limits); err != nil {
			panic(err) // records are written by this package and guarded by checksums
		}
	}
	e.counters[c.key] = c
	return c
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
	for _, c := range e.order {
		switch p := c.encode(e.at.Now); {
		case len(c.limits) > 0:
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
