package routing

import (
	"context"
	"time"

	"github.com/stint-io/stint/shard"
)

// With shard.OverageReject, a settlement is refused if its excess spending does not fit. Such a settlement takes two
// more commits if a leg has overspent. Home is asked first: it settles cases without excess, recognizes repeated
// settlements, and refuses its own excess if it has no room. Then the legs are charged the excess, and home is asked
// again.

// wantsExcess reports whether home has settled nothing because the legs have spent more than they took and were not
// charged for it.
func (o *operation) wantsExcess(home *shard.Decision) bool {
	return o.whole.Settlement.Action != shard.ActionExtend && home.Operation.State != shard.OperationSettled
}

// settleWithExcess charges the legs for their excess spending and has home decide. committed holds the messages that
// tell the legs that the excess is committed. Unless home has decided on this very excess, home is asked about it in
// the background.
func (o *operation) settleWithExcess(ctx context.Context) (result shard.Result, committed []shard.Duty) {
	x := o.excess()
	if len(x.legs) == 0 {
		return shard.Result{Err: errNoVerdict}, nil
	}
	charged, err := x.charge(ctx)
	if err != nil {
		return x.fail(ctx, charged, err), nil
	}
	result = o.settleHome(ctx, &shard.Excess{ID: x.header.ID, Legs: charged})
	switch d := &result.Decision; {
	case result.Err == nil && o.wantsExcess(d):
		result.Err = errNoVerdict
	case result.Err == nil && !d.Replayed:
		verdict := shard.Verdict{ID: x.header.ID, Home: x.home, Known: true, State: shard.OperationCommitted,
			Legs: charged}
		return result, x.finishing(&verdict, charged)
	case result.Err != nil && result.Err.Code == shard.OverQuota:
		x.letGo(ctx, charged)
		return result, nil
	case result.Err != nil && result.Err.Code == shard.TooLate:
		result.Err = notCounted(result.Err) // a leg has asked home earlier and learned that the excess is given up
	}
	x.resolveBehind(charged, decidedBy(charged))
	return result, nil
}

// letGo tells the legs that home has aborted the excess, in the same entry in which it refused the settlement. The
// caller waits for that briefly: a client that learns that its settlement does not fit may settle differently at once,
// and then has all the room.
func (o *operation) letGo(ctx context.Context, charged []shard.Leg) {
	verdict := shard.Verdict{ID: o.header.ID, Home: o.home, Known: true, State: shard.OperationAborted}
	messages := o.finishing(&verdict, charged)
	done := make(chan struct{})
	if len(messages) == 0 || !o.router.background.start(func(ctx context.Context) {
		o.router.finish(ctx, messages)
		close(done)
	}) {
		return
	}
	timer := time.NewTimer(settleAnswerWithin)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// excess returns the operation that charges the legs for the units spent above those taken.
func (o *operation) excess() *operation {
	x := &operation{router: o.router, home: o.home,
		whole: &shard.Request{Op: shard.Settle, Namespace: o.whole.Namespace}}
	actual := o.whole.Settlement.Actual
	for i, entry := range o.whole.Entries {
		if o.at[i] == o.home || i >= len(actual) || actual[i] <= entry.Cost {
			continue
		}
		entry.Cost = actual[i] - entry.Cost
		x.whole.Entries, x.at = append(x.whole.Entries, entry), append(x.at, o.at[i])
	}
	x.legs = legsBeside(x.home, x.at)
	x.header = shard.Operation{ID: drawID(), Op: shard.Settle, Drawn: true, Home: x.home, TTL: chargeTTL,
		Fingerprint: shard.Fingerprint(o.whole)}
	return x
}
