package shard

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/slot"
)

// Push is the progress of pushing the bills of one period to a sink.
type Push struct {
	Sink, Period string     // 1 to 64 bytes each
	Version      uint64     // 0 if there is no record yet
	Position     []byte     // opaque, for the pusher; at most PushPositionMost bytes
	Until        limit.Time // when it is forgotten
}

// PushPositionMost bounds the position of a Push, in bytes.
const PushPositionMost = 1 << 10

const pushNameMost = 64

// PushRequest returns a request that records a position on one shard in place of that of p.Version, which the answer's
// Document raises by one. It is refused with Conflict if another one was recorded since, so that a late copy takes
// nothing back.
func PushRequest(id ID, p *Push) Request {
	return Request{Op: ChangeEvents, Shard: id, System: &SystemTerms{Push: p}}
}

func (p *Push) code(c *MessageCodec) {
	c.Text(&p.Sink, &p.Period)
	c.Uint64(&p.Version)
	codec.Int(&c.Codec, &p.Until)
	c.Bytes(&p.Position, PushPositionMost)
}

// ReadPush reads a position without a commit, so it may be behind. Version 0 means that there is none.
func ReadPush(view Records, sink, period string) (Push, error) {
	record, found := view.Lookup(pushKey(sink, period))
	return pushOf(sink, period, record, found)
}

// FindPush returns the push to a sink among SlotStatus.Pushes. Its Version is 0 if there is none.
func FindPush(pushes []Put, sink, period string) (Push, error) {
	for i := range pushes {
		if pushes[i].Key == pushKey(sink, period) {
			return pushOf(sink, period, pushes[i].Record, true)
		}
	}
	return pushOf(sink, period, Record{}, false)
}

func pushKey(sink, period string) string {
	return string(append(appendString([]byte{pushRecord}, sink), period...))
}

func (p *Push) encode() []byte {
	return append(binary.AppendUvarint([]byte{recordFormat}, p.Version), p.Position...)
}

// pushOf reads the record of a push, or returns one of Version 0 if there is none. The sink and the period are in the
// record's key alone, so the caller names them; leastOf, which needs only the position, does not.
func pushOf(sink, period string, record Record, found bool) (Push, error) {
	p := Push{Sink: sink, Period: period}
	if !found {
		return p, nil
	}
	version, position, ok := versioned(record.Value)
	if !ok {
		return p, fmt.Errorf("shard: the position of a push to %q is malformed or of an unknown format", sink)
	}
	p.Version, p.Until, p.Position = version, record.ForgetAt, append([]byte(nil), position...)
	return p, nil
}

// notePush notes how far a push has come.
func (b *batch) notePush(p Push) Result {
	switch {
	case p.Sink == "" || len(p.Sink) > pushNameMost || p.Period == "" || len(p.Period) > pushNameMost:
		return Result{Err: Invalidf("period", "and sink have 1 to %d bytes each", pushNameMost)}
	case len(p.Position) > PushPositionMost:
		return Result{Err: Invalidf("position", "has %d bytes: at most %d are allowed",
			len(p.Position), PushPositionMost)}
	case p.Until <= b.at.Now || p.Until > b.at.Now+limit.Time(limit.MaxPeriod):
		return Result{Err: Invalidf("until", "is %s: it must lie ahead, and not more than 100 years",
			instantWords(p.Until))}
	}
	record, found := b.lookup(pushKey(p.Sink, p.Period))
	before, err := pushOf(p.Sink, p.Period, record, found)
	switch {
	case err != nil:
		return Result{Err: unreadable("", "the position of the push", err)}
	case before.Version != p.Version: //mutant:late-push-steps-back
		return Result{Err: &Error{Code: Conflict, Message: "the position of the push is a newer one: read it again"}}
	}
	var at PushPosition
	//mutant:slot-comes-behind-its-pusher
	if json.Unmarshal(p.Position, &at) == nil && at.Slots != 0 && at.Slots != ServedSlots(b.view) {
		return Result{Err: &Error{Code: Conflict, Message: "slots came or went while their bills were read: read them again"}}
	}
	p.Version++
	b.write(Put{Key: pushKey(p.Sink, p.Period), Record: Record{Value: p.encode(), ForgetAt: p.Until}})
	return b.answerOf(SystemAnswer{Document: Document{Version: p.Version}})
}

// ServedSlots identifies the slots that a shard serves by its own records. It is never 0.
func ServedSlots(view View) uint64 {
	sum := fnv.New64a()
	for at := slot.ID(0); view.HasSlotRecords() && at < slot.Count; at++ {
		if s, err := readSlotStatus(view, at); err == nil && s.State != SlotUnknown && s.serves() {
			binary.Write(sum, binary.BigEndian, at)
		}
	}
	return max(sum.Sum64(), 1)
}

// PushPosition is how far the bills of a shard were pushed to a sink. Its text is JSON in the Position of a Push, so no
// field of it, nor of the types below it, can be renamed.
type PushPosition struct {
	Done    limit.Time // all that became final until then is sent
	Through limit.Time `json:",omitzero"` // of the walk that is under way; 0: there is none
	From    UsagePlace `json:",omitzero"` // where it goes on; without an After (ReadFinalUsage)
	// Tried is when Stripe was first sent what is at From, so that a batch without an answer is not sent when Stripe
	// has forgotten it.
	Tried limit.Time `json:",omitzero"`
	// Slots is the ServedSlots with which the page before From was read, or 0. A note is refused if the shard serves
	// others by then: the page lacks the bills of a slot that came meanwhile.
	Slots uint64 `json:",omitzero"`
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
	at.Skipped, other.Skipped, at.Slots, other.Slots = nil, nil, 0, 0
	if at == other { //mutant:walk-goes-on-for-others
		return at
	}
	return PushPosition{Done: min(at.Done, other.Done)} //mutant:greatest-push-position
}

// leastOf returns the record with the least position of some shards, and with the skipped bills of those that are its
// own. A record that cannot be read is taken as it is: its pusher will say so.
func leastOf(found map[ID]Record, from []ID, own func(source ID) bool) Record {
	var until limit.Time
	var version uint64
	positions := make(map[ID]PushPosition, len(found))
	skipped := SkippedBills{}
	for _, source := range slices.Sorted(maps.Keys(found)) {
		r := found[source]
		var at PushPosition
		p, err := pushOf("", "", r, true)
		if err == nil {
			err = json.Unmarshal(p.Position, &at)
		}
		if err != nil {
			return r
		}
		until, version = max(until, p.Until), max(version, p.Version)
		if positions[source] = at; at.Skipped != nil && own(source) { //mutant:skipped-bill-comes-twice
			skipped.Add(*at.Skipped, SkippedNewest)
		}
	}
	least := positions[from[0]] // of a shard without a position: from the beginning
	for _, source := range from[1:] {
		least = least.least(positions[source])
	}
	if least.Skipped = nil; skipped.Bills > 0 {
		least.Skipped = &skipped
	}
	text, err := least.Encode()
	if err != nil {
		panic(err) // it is plain data
	}
	return Record{Value: (&Push{Version: version, Position: text}).encode(), ForgetAt: until}
}
