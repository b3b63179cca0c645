package routing

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// A request with entries on several shards is an operation (X4). The node that received it is the coordinator. It has
// the shards of the other slots, the legs, charge their parts, and then has home decide the whole. The coordinator's
// state is in no log, and it may vanish at any moment: the outcome is what home has committed, and the shards finish
// the rest by themselves (Discharge).

const (
	// chargeTTL is how long a leg waits to hear from home before it asks. Until then the units of an operation with a
	// vanished coordinator are held back.
	chargeTTL = 5 * limit.Span(time.Second/time.Microsecond)
	// operationPatience bounds how long a coordinator works on one operation, whatever its caller's deadline is. Home
	// would not accept a Conclude much later.
	operationPatience = 20 * time.Second
	// maxAcross bounds the operations of one Decide that are in flight at a time.
	maxAcross = 64
)

// operation is one request on several shards while it is being coordinated.
type operation struct {
	router *Router
	whole  *shard.Request
	at     []slot.ID // slot of each entry
	own    int       // number of entries sent by the client; those of parents follow; unused in settleAcross
	home   slot.ID   // shard.Request.Slot: the same for a request that is sent again, even if parents have changed
	legs   []slot.ID // the other slots, ascending
	// header is what all messages say. One that says more has a copy.
	header shard.Operation
}

// operationOf prepares a request with entries on several shards.
func (r *Router) operationOf(request *shard.Request) *operation {
	o := &operation{router: r, whole: request, at: slotsOf(request), own: cmp.Or(request.Own, len(request.Entries))}
	o.home = request.Slot()
	o.legs = legsBeside(o.home, o.at)
	o.header = shard.Operation{ID: request.ID, Op: request.Op, Home: o.home, TTL: chargeTTL,
		Fingerprint: shard.Fingerprint(request)}
	if request.ID == "" {
		o.header.ID, o.header.Drawn = drawID(), true
	}
	return o
}

// drawID returns an id for an operation without one of its client: 128 random bits in hex.
func drawID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// legsBeside returns the slots other than home, each once.
func legsBeside(home slot.ID, at []slot.ID) (legs []slot.ID) {
	for _, id := range at {
		if id != home && !slices.Contains(legs, id) {
			legs = append(legs, id)
		}
	}
	slices.Sort(legs)
	return legs
}

// decideAcross carries out one request with entries on several shards, or a settlement of such a request.
func (r *Router) decideAcross(ctx context.Context, request *shard.Request, shards uint32) shard.Result {
	ctx, cancel := context.WithTimeout(ctx, operationPatience)
	defer cancel()
	if settlesOperation(request) != nil {
		return r.settleAcross(ctx, request)
	}
	if request.Op.AboutShard() {
		return shard.Result{Err: noSuchShard(request.Shard, shards)}
	}
	o := r.operationOf(request)
	switch request.Op {
	case shard.Check, shard.Count, shard.Partial, shard.Reserve:
		return o.carryOut(ctx)
	case shard.Peek, shard.Get:
		return o.look(ctx)
	case shard.Settle:
		return o.settleParted(ctx)
	}
	return shard.Result{Err: errParted}
}

var errParted = shard.Invalidf("entries", "live on several shards: this is done on one at a time")

// carryOut charges the legs and has home decide. This takes two sequential commits, and with a client's id one more
// before them, to learn whether there is an outcome for the id. If a key has just denied or been refused, carryOut
// looks at all shards first, and charges no leg for an operation that is denied again. Otherwise a client that has used
// up one key, or names a key that does not exist, could keep the keys of other clients full.
func (o *operation) carryOut(ctx context.Context) shard.Result {
	if !o.header.Drawn {
		if result, known := o.ask(ctx); known {
			return result
		}
	}
	if of := o.router.recentDenials.worstOf(o); of != trusted {
		if result, done := o.lookFirst(ctx, of); done {
			return result
		}
	}
	charged, err := o.charge(ctx)
	if err != nil {
		return o.fail(ctx, charged, err)
	}
	return o.conclude(ctx, charged)
}

// question asks home for the recorded outcome of the client's id. Home gets all entries, since it may have decided all
// of them when their slots were on one shard.
func (o *operation) question() shard.Request {
	return shard.Request{Op: shard.AskHome, Operation: &o.header,
		Entries: o.whole.Entries, Own: o.whole.Own, Settlement: o.whole.Settlement} //mutant:home-asked-with-its-part
}

// ask asks home the question. An error counts as known.
func (o *operation) ask(ctx context.Context) (result shard.Result, known bool) {
	result = o.send(ctx, o.home, o.question())
	verdict := result.Decision.Operation
	if result.Err != nil || verdict == nil { // without a verdict, home alone has decided it
		return result, true
	}
	if !verdict.Known {
		return shard.Result{}, false
	}
	return o.answer(&result.Decision, verdict.Legs), true
}

// address gives a message what it has in common with the whole.
func (o *operation) address(message *shard.Request) {
	message.Namespace, message.Revision, message.Hashed = o.whole.Namespace, o.whole.Revision, o.whole.Hashed
	message.Trace = o.whole.Trace
}

// send sends one message of the operation to the shard of a slot. A successful answer of home about the operation
// always has a verdict, unless home has decided the same request alone, before a policy got a parent.
func (o *operation) send(ctx context.Context, to slot.ID, message shard.Request) shard.Result {
	o.address(&message)
	slots, _, err := o.router.slots(ctx)
	if err != nil {
		return shard.Result{Err: err}
	}
	result := o.router.deliver(ctx, o.router.routeTo(shard.ID(slots[to])), []shard.Request{message})[0]
	alone := result.Decision.Replayed && (message.Op == shard.AskHome || message.Op == shard.Conclude)
	if message.Operation != nil && to == o.home && result.Err == nil && result.Decision.Operation == nil && !alone {
		return shard.Result{Err: errNoVerdict}
	}
	return result
}

// errNoVerdict is the error if home, possibly of another version, answers without a verdict.
var errNoVerdict = &shard.Error{Code: shard.UnknownOutcome, Message: "the home of an operation on several shards has " +
	"answered without a verdict: are all nodes of one version?"}

// entriesAt returns the entries that live in a slot.
func (o *operation) entriesAt(id slot.ID) (entries []shard.Entry) {
	for i, at := range o.at {
		if at == id {
			entries = append(entries, o.whole.Entries[i])
		}
	}
	return entries
}

// ownAtHome returns how many of the client's entries live at home; 0 means all entries at home.
func (o *operation) ownAtHome() (n int) {
	for i := range o.at {
		if o.at[i] == o.home && i < o.own {
			n++
		}
	}
	return n
}

// charge charges all legs concurrently. It returns the legs that answered with a decision, and the first error.
func (o *operation) charge(ctx context.Context) (charged []shard.Leg, err *shard.Error) {
	results := o.atEach(func(id slot.ID) shard.Result {
		header := o.header
		header.Leg = id
		return o.send(ctx, id, shard.Request{Op: shard.Charge, Entries: o.entriesAt(id), Hold: o.whole.Hold,
			Operation: &header})
	})
	for i := range results {
		failure := results[i].Err
		if failure == nil {
			d := results[i].Decision
			charged = append(charged, shard.Leg{Slot: o.legs[i], Allowed: d.Allowed, Decision: d})
			continue
		}
		o.router.recentDenials.learnRefused(o, o.legs[i], failure)
		if err == nil {
			err = o.errorInWhole(failure, o.legs[i])
		}
	}
	return charged, err
}

// atEach asks every leg concurrently and returns their answers, in the order of the legs.
func (o *operation) atEach(ask func(id slot.ID) shard.Result) []shard.Result {
	results := make([]shard.Result, len(o.legs))
	var group sync.WaitGroup
	for i, id := range o.legs[1:] {
		group.Go(func() { results[i+1] = ask(id) })
	}
	results[0] = ask(o.legs[0])
	group.Wait()
	return results
}

// conclude makes home decide. The legs learn the decision in the background.
func (o *operation) conclude(ctx context.Context, charged []shard.Leg) shard.Result {
	notAfter := decidedBy(charged)
	header := o.header
	header.Legs = charged
	result := o.send(ctx, o.home, shard.Request{
		Op:        shard.Conclude,
		Entries:   o.entriesAt(o.home),
		Own:       o.ownAtHome(),
		Hold:      o.whole.Hold,
		Operation: &header,
		NotAfter:  notAfter,
	})
	switch err := result.Err; {
	case err == nil && result.Decision.Operation == nil:
		o.resolveBehind(charged, notAfter)
		return result
	case err == nil:
		o.finishBehind(result.Decision.Operation, charged)
		legs := charged
		if result.Decision.Replayed {
			legs = result.Decision.Operation.Legs // perhaps those of another coordinator
		}
		result = o.answer(&result.Decision, legs)
		o.router.recentDenials.learn(o, &result.Decision)
		return result
	case err.MaybeApplied():
		if o.header.Drawn {
			o.resolveBehind(charged, notAfter)
		} // with a client's id the legs stay: the client may ask again
		return shard.Result{Err: err}
	default:
		o.router.recentDenials.learnRefused(o, o.home, err)
		return o.fail(ctx, charged, o.errorInWhole(err, o.home))
	}
}

// decidedBy returns the deadline for home to decide an operation with these charges.
func decidedBy(charged []shard.Leg) limit.Time {
	earliest := charged[0].Decision.DecidedAt
	for _, leg := range charged[1:] {
		earliest = min(earliest, leg.Decision.DecidedAt)
	}
	return earliest + limit.Time(shard.ConcludeWithin)
}

// fail ends an operation that home was not asked to decide, or did not decide: nothing was counted. Charges are given
// back once home has ruled. This starts at once if the request will not be asked again; otherwise the client may still
// have it carried out.
func (o *operation) fail(ctx context.Context, charged []shard.Leg, err *shard.Error) shard.Result {
	if err.Code == shard.TooLate && !o.header.Drawn { // another coordinator of the same id may have finished
		if result, known := o.ask(ctx); known {
			return result
		}
	}
	if o.header.Drawn || !isTransient(err) {
		o.resolveBehind(charged, 0)
	}
	return shard.Result{Err: notCounted(err)}
}

// notCounted returns the error of an operation that home did not decide. The legs give back their charges.
func notCounted(err *shard.Error) *shard.Error {
	if !err.MaybeApplied() && err.Code != shard.TooLate {
		return err
	}
	return &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3,
		Message: "a shard of several did not answer in time; nothing was counted: " + err.Message}
}

// errorInWhole translates the entry index in one slot's error into the index in the whole request.
func (o *operation) errorInWhole(err *shard.Error, at slot.ID) *shard.Error {
	var place int
	var rest string
	if n, _ := fmt.Sscanf(err.Field, "entries[%d]%s", &place, &rest); n == 0 {
		return err
	}
	for i := range o.at {
		if o.at[i] != at {
			continue
		}
		if place--; place < 0 {
			whole := *err
			whole.Field = fmt.Sprintf("entries[%d]%s", i, rest)
			return &whole
		}
	}
	return err
}
