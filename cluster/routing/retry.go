package routing

import (
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// repeatable reports whether a request with an unknown outcome may be sent again.
func repeatable(r *shard.Request) bool {
	return r.Number != 0 || r.ID != "" || r.CountsOnce() || !r.Op.Changes() //mutant:retries-without-id-or-session
}

// goesOn reports whether a request is asked again. If not, its result is final, and goesOn corrects the result where an
// earlier copy may have been counted.
func goesOn(r *shard.Request, result *shard.Result, moved bool) bool {
	err := result.Err
	switch {
	case err == nil && !result.Decision.Allowed && r.Retry && r.Number == 0 && r.Operation == nil:
		// An id, unlike a session, remembers no denial: the earlier copy may still be admitted.
		*result = shard.Result{Err: fate(r, errDeniedNow)}
		return false
	case err == nil:
		answeredFirst(r, &result.Decision)
		return false
	case err.MaybeApplied():
		return repeatable(r)
	case err.Code == shard.SessionGone && r.Number != 0 && (!r.Retry || r.ID != ""):
		// Either nothing was counted before, or the record of the id tells: all copies are refused from now on.
		return true
	case err.Code == shard.TooLate && r.Number != 0 && r.Retry:
		// An earlier copy got a final "no" that we did not receive: no copy with this number can count any more.
		return true
	case r.Number != 0 && (err.Code == shard.HoldEnded || err.Code == shard.OverQuota):
		// The shard has checked, and its session knows: no copy with this number was counted, and none will be.
		return false
	case err.Code == shard.Unavailable && err.Field == shard.ErrGivenUp.Field: //mutant:given-up-id-is-asked-on
		return false // no copy of its operation counts, whichever node is asked
	case err.Code == shard.Unavailable && err.RetryAfter >= LongWait:
		result.Err = fate(r, err) // the owner knows that this will not change soon
		return false
	//mutant:router-disbelieves-no-owner
	case err.Code == shard.NotOwner, err.Code == shard.Draining, err.Code == shard.Unavailable:
		return true
	case err.Code == shard.Overloaded && moved:
		return true // we canceled the attempt
	case strays(err):
		return false // its fate is not settled: see follow
	}
	result.Err = fate(r, err)
	return false
}

// answeredFirst turns the answer to a later copy in a session into the first copy's answer, if the shard remembers it:
// the caller asked once, and gave no id that could have been replayed. A replayed settlement stays marked as replayed,
// because it may have been made before without any copy of ours.
func answeredFirst(r *shard.Request, d *shard.Decision) {
	if d.Replayed && d.Index != 0 && r.ID == "" && r.Op != shard.Settle && r.Operation == nil {
		d.Replayed = false
	}
}

// strays reports whether a shard has refused a request because of its slots, so that it is to be asked elsewhere.
func strays(err *shard.Error) bool {
	//mutant:moved-request-fails //mutant:spread-reservation-fails
	return err.Code == shard.Moved || err.Code == shard.Spread
}

// LongWait is the retry delay from which an Unavailable is final. An owner uses it when it cannot decide until someone
// intervenes, and the request is not asked again.
const LongWait = limit.Span(1e6)

// errDeniedNow says that a later copy was denied, which does not settle the request.
var errDeniedNow = &shard.Error{Message: "it was denied"}

// fate returns the final error of a request. An error of a later copy says nothing about an earlier copy, which may
// have been counted.
func fate(r *shard.Request, err *shard.Error) *shard.Error {
	if !r.Retry || err.MaybeApplied() { //mutant:late-refusal-speaks-for-all
		return err
	}
	return &shard.Error{Code: shard.UnknownOutcome, Field: err.Field,
		Message: "the outcome is not known: it may have been counted; " +
			"ask again with the same idempotency_id (when asked again without one: " + err.Message + ")"}
}

// momentLeast is the first pause before a shard is asked again that is just taking over a slot.
const momentLeast = 10 * time.Millisecond

// inAMoment reports whether the owner itself asks to be asked again very soon.
func inAMoment(err *shard.Error) bool {
	return err.Code == shard.Unavailable && err.RetryAfter > 0 &&
		err.RetryAfter <= limit.Span(momentLeast/time.Microsecond)
}

// isTransient reports whether an error is transient: the same request may get another answer later.
func isTransient(err *shard.Error) bool {
	switch err.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.TooLate, shard.UnknownOutcome:
		return true
	}
	return false
}
