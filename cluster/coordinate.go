package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// A request whose entries live on several shards is an operation (SEMANTICS X4). The node that was asked coordinates it:
// it has the other shards charge their part, and then home, the lowest of them, decide the whole. What it knows is in no
// log, and it may vanish at any moment: what home has committed is the outcome, and what is left to do the shards do by
// themselves (Discharge).

const (
	// chargeTTL is how long a leg waits for a word from home before it asks. Until then the units of an operation whose
	// coordinator has vanished are held back.
	chargeTTL = 5 * limit.Span(time.Second/time.Microsecond)
	// operationPatience bounds how long a coordinator works on one operation, whatever its caller's deadline is: home
	// would not take a Conclude for much longer.
	operationPatience = 20 * time.Second
	// maxAcross bounds the operations of one Decide that are under way at a time.
	maxAcross = 64
)

// operation is one request on several shards, while it is coordinated.
type operation struct {
	router *Router
	whole  *shard.Request
	at     []shard.ID // of each entry
	home   shard.ID
	legs   []shard.ID // the other shards, ascending
	about  shard.Operation
}

// operationOf prepares a request whose entries live at the given shards.
func (r *Router) operationOf(request *shard.Request, at []shard.ID) *operation {
	o := &operation{router: r, whole: request, at: at}
	o.home, o.legs = homeAndLegs(at)
	o.about = shard.Operation{ID: request.ID, Op: request.Op, Home: o.home, TTL: chargeTTL,
		Fingerprint: shard.OperationFingerprint(request)}
	if request.ID == "" {
		o.about.ID, o.about.Drawn = drawID(), true
	}
	return o
}

func drawID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// homeAndLegs sorts shards: the lowest is home, the others are legs, each once.
func homeAndLegs(at []shard.ID) (home shard.ID, legs []shard.ID) {
	home = slices.Min(at)
	for _, id := range at {
		if id != home && !slices.Contains(legs, id) {
			legs = append(legs, id)
		}
	}
	slices.Sort(legs)
	return home, legs
}

// decideAcross carries out one request whose entries live on several shards, or that settles one that did.
func (r *Router) decideAcross(ctx context.Context, request *shard.Request, shards uint32) shard.Result {
	ctx, cancel := context.WithTimeout(ctx, operationPatience)
	defer cancel()
	if settlesOperation(request) != nil {
		return r.settleAcross(ctx, request, shards)
	}
	o := r.operationOf(request, shardsOf(request, shards))
	switch request.Op {
	case shard.Check, shard.Count, shard.Partial, shard.Reserve:
		return o.carryOut(ctx)
	case shard.Peek, shard.Get:
		return o.look(ctx)
	}
	return shard.Result{Err: shard.Invalidf("entries", "live on several shards: this is done on one at a time")}
}

// carryOut charges the legs and has home decide. It takes two commits, one after the other, and one more before them to
// learn whether a client's id was asked with before.
func (o *operation) carryOut(ctx context.Context) shard.Result {
	if !o.about.Drawn {
		if result, known := o.ask(ctx); known {
			return result
		}
	}
	charged, err := o.charge(ctx)
	if err != nil {
		return o.fail(ctx, charged, err)
	}
	return o.conclude(ctx, charged)
}

// ask looks for the recorded outcome of the client's id. An error is an answer too.
func (o *operation) ask(ctx context.Context) (result shard.Result, known bool) {
	result = o.send(ctx, o.home, shard.Request{Op: shard.AskHome, Operation: &o.about})
	if result.Err != nil {
		return result, true
	}
	verdict := result.Decision.Operation
	if !verdict.Known {
		return shard.Result{}, false
	}
	return o.answer(&result.Decision, verdict.Legs), true
}

// send has one message of the operation answered by the shard that it is for. Of home there is always a verdict.
func (o *operation) send(ctx context.Context, to shard.ID, message shard.Request) shard.Result {
	message.Namespace = o.whole.Namespace
	result := o.router.deliver(ctx, o.router.roadTo(to), []shard.Request{message})[0]
	if message.Operation != nil && to == o.home && result.Err == nil && result.Decision.Operation == nil {
		return shard.Result{Err: errNoVerdict}
	}
	return result
}

// errNoVerdict is what a home of another version may come to.
var errNoVerdict = &shard.Error{Code: shard.UnknownOutcome, Message: "the home of an operation on several shards has " +
	"answered without a verdict: are all nodes of one version?"}

// entriesAt lists the entries that live at a shard.
func (o *operation) entriesAt(id shard.ID) (entries []shard.Entry) {
	for i, at := range o.at {
		if at == id {
			entries = append(entries, o.whole.Entries[i])
		}
	}
	return entries
}

// charge has every leg charged at the same time. It returns those that said how they decided, and the first error.
func (o *operation) charge(ctx context.Context) (charged []shard.Leg, err *shard.Error) {
	results := make([]shard.Result, len(o.legs))
	o.atEach(func(i int, id shard.ID) {
		results[i] = o.send(ctx, id, shard.Request{Op: shard.Charge, Entries: o.entriesAt(id), Hold: o.whole.Hold,
			Operation: &o.about})
	})
	for i := range results {
		switch failure := results[i].Err; {
		case failure == nil:
			d := results[i].Decision
			charged = append(charged, shard.Leg{Shard: o.legs[i], Allowed: d.Allowed, Decision: d})
		case err == nil:
			err = o.ofWhole(failure, o.legs[i])
		}
	}
	return charged, err
}

// atEach does something for every leg at the same time.
func (o *operation) atEach(do func(i int, id shard.ID)) {
	var group sync.WaitGroup
	for i, id := range o.legs[1:] {
		group.Go(func() { do(i+1, id) })
	}
	do(0, o.legs[0])
	group.Wait()
}

// conclude has home decide, and what it decided done everywhere, behind the caller's back.
func (o *operation) conclude(ctx context.Context, charged []shard.Leg) shard.Result {
	notAfter := charged[0].Decision.DecidedAt
	for _, leg := range charged[1:] {
		notAfter = min(notAfter, leg.Decision.DecidedAt)
	}
	notAfter += limit.Time(shard.ConcludeWithin)
	about := o.about
	about.Legs = charged
	result := o.send(ctx, o.home, shard.Request{Op: shard.Conclude, Entries: o.entriesAt(o.home), Hold: o.whole.Hold,
		Operation: &about, NotAfter: notAfter})
	switch err := result.Err; {
	case err == nil:
		o.finishBehind(result.Decision.Operation, charged)
		legs := charged
		if result.Decision.Replayed {
			legs = result.Decision.Operation.Legs // another coordinator's, perhaps
		}
		return o.answer(&result.Decision, legs)
	case err.MaybeApplied():
		if o.about.Drawn {
			o.resolveBehind(charged, notAfter)
		} // a client may ask again with its id, and finds the legs as they are
		return shard.Result{Err: err}
	default:
		return o.fail(ctx, charged, o.ofWhole(err, o.home))
	}
}

// fail ends an operation that home was not asked to decide, or did not decide: nothing was counted. What was charged is
// given back when home has said so; at once if nobody will ask again. Else the client may yet have it carried out.
func (o *operation) fail(ctx context.Context, charged []shard.Leg, err *shard.Error) shard.Result {
	if err.Code == shard.TooLate && !o.about.Drawn { // another coordinator of the same id may be through
		if result, known := o.ask(ctx); known {
			return result
		}
	}
	if o.about.Drawn || !passes(err) {
		o.resolveBehind(charged, 0)
	}
	return shard.Result{Err: notCounted(err)}
}

// passes reports whether the same request may be answered otherwise in a while.
func passes(err *shard.Error) bool {
	switch err.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.TooLate, shard.UnknownOutcome:
		return true
	}
	return false
}

// notCounted is the error of an operation that home did not decide. Whatever a leg has charged it gives back.
func notCounted(err *shard.Error) *shard.Error {
	if !err.MaybeApplied() && err.Code != shard.TooLate {
		return err
	}
	return &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3,
		Message: "a shard of several did not answer in time; nothing was counted: " + err.Message}
}

// ofWhole names the entry of the whole request that an error of one shard is about.
func (o *operation) ofWhole(err *shard.Error, at shard.ID) *shard.Error {
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
