package shard

import (
	"encoding/json"
	"slices"

	"github.com/stint-io/stint/limit"
)

// PushPosition is how far the bills of a shard were pushed to a sink. Its text is JSON in the Position of a Push.
type PushPosition struct {
	Done    limit.Time // all that became final until then is sent
	Through limit.Time `json:",omitzero"` // of the walk that is under way; 0: there is none
	From    UsagePlace `json:",omitzero"` // where it goes on
	// Tried is when Stripe was first sent what is at From, so that a batch without an answer is not sent when Stripe
	// has forgotten it.
	Tried limit.Time `json:",omitzero"`
	// Skipped are the bills that the sink was not sent, since it was made or enabled.
	Skipped *SkippedBills `json:",omitempty"`
}

// SkippedBills are the bills that a sink was not sent and will not be. In a log they are noted with the position that
// passes them, so each is counted once.
type SkippedBills struct {
	At     limit.Time `json:",omitzero"` // of the newest
	Bills  uint64
	Newest []SkippedBill
}

// SkippedBill is one of them.
type SkippedBill struct{ ID, Why string }

// Add adds others, and keeps so many of the newest.
func (b *SkippedBills) Add(others SkippedBills, most int) {
	b.At = max(b.At, others.At)
	b.Bills += others.Bills
	b.Newest = slices.Concat(b.Newest, others.Newest)
	b.Newest = b.Newest[max(0, len(b.Newest)-most):]
}

// SkippedNewest is how many skipped bills a position names at most.
const SkippedNewest = 8

// Encode writes a position. It names fewer skipped bills if there is no room for them.
func (at PushPosition) Encode() ([]byte, error) {
	for {
		text, err := json.Marshal(at)
		if err != nil || len(text) <= PushPositionMost || at.Skipped == nil || len(at.Skipped.Newest) == 0 {
			return text, err
		}
		fewer := *at.Skipped
		fewer.Newest = fewer.Newest[1:]
		at.Skipped = &fewer
	}
}

// least returns the lesser of two positions, without skipped bills. If they differ, all that became final after the
// lesser is sent again, under its ids.
func (at PushPosition) least(other PushPosition) PushPosition {
	at.Skipped, other.Skipped = nil, nil
	if at == other { //mutant:walk-goes-on-for-others
		return at
	}
	return PushPosition{Done: min(at.Done, other.Done)} //mutant:greatest-push-position
}
