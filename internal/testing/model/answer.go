package model

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/limit"
)

// Place is an entry of the shard's log, with its shard time.
type Place struct {
	Epoch, Seq uint64
	At         limit.Time
}

// Refusal is an error that a History expects for certain requests.
type Refusal uint8

// The refusals.
const (
	NotRefused Refusal = iota
	IDReused           // the id belongs to another request
	HoldEnded          // the hold or decision was settled differently, has expired, or is too old
	OverQuota          // a commit above the hold does not fit
	TooLarge           // a tally would need more than 64 bits
	KeyUnknown         // the policy refuses keys that have no override
	NoPeriod           // there is no such period to correct
)

// String names the refusal.
func (r Refusal) String() string {
	return [...]string{"no", "id reused", "hold ended", "over quota", "too large", "key unknown", "no period"}[r]
}

// Answer is a decision.
type Answer struct {
	Place        Place  // of the entry that decided it first
	Index        uint32 // from 1, among the counted decisions of that entry; 0 if nothing was counted
	Allowed      bool
	ShadowDenied bool
	Challenged   bool // not allowed, and only soft limits say no
	Replayed     bool
	RetryAfter   limit.Span
	HoldExpires  limit.Time
	Limits       []Status // for every limit of every charge, in their order; none for a tally
	Tallied      *Tallied // Tally and ReadTally
}

// Status is one limit of one charge in an answer.
type Status struct {
	Limit             string
	Quota             uint64
	Unlimited, Shadow bool
	Soft              bool
	Held, Granted     uint64 // Granted: of an admitted Partial alone
	LockoutLevel      uint32
	BlockedUntil      limit.Time // 0: no block
	Blocked           bool       // the block denies; false beside BlockedUntil: it is in shadow
	ByHand            bool       // an operator blocks the key, whatever its ladder does
	limit.Verdict
}

// differs compares a replay with the original answer.
func (a Answer) differs(original Answer) error {
	a.Replayed = original.Replayed
	if a.Place != original.Place || a.Index != original.Index || a.Allowed != original.Allowed ||
		a.ShadowDenied != original.ShadowDenied || a.Challenged != original.Challenged ||
		a.RetryAfter != original.RetryAfter ||
		a.HoldExpires != original.HoldExpires || !slices.Equal(a.Limits, original.Limits) ||
		!sameTally(a.Tallied, original.Tallied) {
		return fmt.Errorf("a replay says %+v, the original said %+v", a, original)
	}
	return nil
}

func sameTally(a, b *Tallied) bool { return a == b || a != nil && b != nil && *a == *b }

// compare compares an answer with the expected one. It skips instants that were not searched for.
func (h *History) compare(got, want *Answer) error {
	switch {
	case want.Replayed:
		if !got.Replayed {
			return fmt.Errorf("what was settled before is settled again: %+v", *got)
		}
		return got.differs(*want)
	case got.Allowed != want.Allowed:
		return fmt.Errorf("allowed is %v, must be %v", got.Allowed, want.Allowed)
	case got.Index != want.Index && want.Index == 0:
		return fmt.Errorf("nothing was counted, yet it has index %d", got.Index)
	case got.Index != want.Index:
		return fmt.Errorf("the counted decision %d of %v has index %d", want.Index, want.Place, got.Index)
	case got.ShadowDenied != want.ShadowDenied:
		return fmt.Errorf("denied in shadow is %v, must be %v", got.ShadowDenied, want.ShadowDenied)
	case got.Challenged != want.Challenged:
		return fmt.Errorf("challenged is %v, must be %v", got.Challenged, want.Challenged)
	case got.HoldExpires != want.HoldExpires:
		return fmt.Errorf("the hold expires at %d, must at %d", got.HoldExpires, want.HoldExpires)
	case !sameTally(got.Tallied, want.Tallied):
		return fmt.Errorf("the tally is %+v, must be %+v", got.Tallied, want.Tallied)
	case len(got.Limits) < len(want.Limits):
		return fmt.Errorf("%d statuses are fewer than its limits", len(got.Limits))
	case len(got.Limits) > len(want.Limits):
		return fmt.Errorf("%d statuses are more than its limits", len(got.Limits))
	}
	for i, w := range want.Limits {
		g := got.Limits[i]
		if !h.searches() {
			w.ResetAt = g.ResetAt
		}
		if !w.Allowed && !h.searches() {
			w.RetryAfter = g.RetryAfter
		}
		if g != w {
			return fmt.Errorf("limit %d, %s: answered %+v, must be %+v", i, w.Limit, g, w)
		}
	}
	if got.RetryAfter != want.RetryAfter && (want.Allowed || h.searches()) {
		return fmt.Errorf("retry after is %d, must be %d", got.RetryAfter, want.RetryAfter)
	}
	return nil
}
