package shard

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
)

// aheadMost is how far the time in an idempotency id may be ahead of shard time (X2).
const aheadMost = limit.Span(60e6)

// decideByID decides a request with an idempotency id at most once.
func (e *evaluation) decideByID(r *Request, answer *Result) {
	at := r.Slot()
	e.scratch = appendAnswerKey(e.scratch[:0], r.Namespace, at, r.ID)
	key := string(e.scratch)
	if record, found := e.lookup(key); found {
		*answer = e.replay(record.Value, r)
		return
	}
	if answer.Err = e.slotElsewhere(at); answer.Err != nil {
		return
	}
	if e.decidedAcross(r, at, answer) {
		return
	}
	if r.Op.charges() {
		if answer.Err = e.crowdedBy(r); answer.Err != nil { //mutant:ids-on-one-key-fill-a-shard
			return
		}
	}
	e.decideNew(r, answer)
	// a brimful shard does not remember the id
	//mutant:no-idempotency-record //mutant:no-idempotency-record-in-clusters //mutant:tally-adds-again
	if answer.Err == nil && answer.Decision.Index != 0 && !e.room.brimful() {
		e.record(key, r, &answer.Decision)
	}
}

// replay answers a request from the record of its id. It refuses a request that is not the recorded one.
func (b *batch) replay(value []byte, r *Request) Result {
	d, same, err := decodeAnswer(value, r)
	if err != nil {
		return Result{Err: unreadable("idempotency_id", fmt.Sprintf("what the request with id %q was answered", r.ID),
			err)}
	}
	if !same {
		return Result{Err: r.refusalUnlessPart(value, idReused(r.ID))}
	}
	return Result{Decision: d}
}

// record writes the answer of an id along with its effects, for the longest retention of the request's policies. If the
// id carries a time ahead of shard time, the retention starts then, so that the record lasts until the id is refused as
// too old.
func (b *batch) record(key string, r *Request, d *Decision) {
	made, _ := timeOfUUIDv7(r.ID)
	forgetAt := max(b.at.Now, made) + limit.Time(b.retention(r))

	b.write(Put{Key: key, Record: Record{Value: encodeAnswer(r, d), ForgetAt: forgetAt}})
}

// retention returns the longest retention of the policies of a request; one that no longer exists has the default.
func (b *batch) retention(r *Request) limit.Span {
	var longest limit.Span
	for i := range r.Entries {
		p, ok := b.policyOf(&r.Entries[i])
		if !ok {
			p = inlinePolicy
		}
		longest = max(longest, p.Retention)
	}
	return longest
}

// checkIDTime refuses an id if its time shows that its record may be gone, or that no honest clock made it.
func (b *batch) checkIDTime(r *Request) *Error {
	if r.ID == "" {
		return nil
	}
	made, ok := timeOfUUIDv7(r.ID)
	if !ok {
		return nil
	}
	if made > b.at.Now+limit.Time(aheadMost) {
		return Invalidf("idempotency_id", "%q carries a time more than 60 s ahead of shard time", r.ID)
	}
	if retention := b.retention(r); made+limit.Time(retention) <= b.at.Now {
		return errorf(IDExpired, "idempotency_id", "%q is older than the %d s for which ids are remembered: "+
			"whether it ran can no longer be told", r.ID, retention/1e6)
	}
	return b.restoredSince(r, made) //mutant:lost-id-runs-again
}

func idReused(id string) *Error {
	return errorf(IDReused, "idempotency_id", "%q was used for another request; a new request needs a new id", id)
}

// encodeAnswer writes the record of an id: format, fingerprint, parents, then the decision. Its statuses name their
// entry by its index: every request with this id contains it. The parents of a policy may be others by then, so they
// are named.
func encodeAnswer(r *Request, d *Decision) []byte {
	c := MessageWriter(binary.LittleEndian.AppendUint64([]byte{recordFormat}, Fingerprint(r)))
	parents := r.Entries[len(r.own()):]
	c.parents(&parents)
	c.names = r.Entries
	c.part(d)
	return c.Written()
}

func (c *MessageCodec) parents(parents *[]Entry) {
	codec.List(&c.Codec, parents, c.Left(), func(e *Entry) { c.Text(&e.Policy, &e.Key) })
}

// decodeAnswer reads the record of an id for a request with that id. sameRequest is false if the id was used for
// another request; then there is no decision.
func decodeAnswer(value []byte, r *Request) (d Decision, sameRequest bool, err error) {
	c := MessageReader(string(value))
	var format byte
	var print uint64
	codec.Byte(&c.Codec, &format)
	if c.Fixed64(&print); format != recordFormat {
		return Decision{}, false, errors.New("shard: idempotency record of an unknown format")
	}
	if !r.isOf(print) {
		return Decision{}, false, nil
	}
	var parents []Entry
	c.parents(&parents)
	c.names = slices.Concat(r.own(), parents)
	if c.part(&d); !c.Whole() || c.alien {
		return Decision{}, false, errors.New("shard: idempotency record is malformed")
	}
	d.Replayed = true
	return d, true, nil
}

// timeOfUUIDv7 returns the time in an id, if the id is a UUID of version 7 (RFC 9562, section 5.7: the first 48 bits
// are milliseconds since the Unix epoch).
func timeOfUUIDv7(id string) (limit.Time, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' || id[14] != '7' {
		return 0, false
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(raw) != 16 || raw[8]>>6 != 2 {
		return 0, false
	}
	return limit.Time(binary.BigEndian.Uint64(raw)>>16) * 1000, true
}

// isOf reports whether the fingerprint in a record is the request's.
func (r *Request) isOf(print uint64) bool {
	if r.Operation != nil && r.Op != Settle {
		return print == r.Operation.Fingerprint
	}
	return print == Fingerprint(r) //mutant:one-id-for-any-request
}

// Fingerprint distinguishes requests that use the same id, by what the client has sent: policies may have got or lost
// parents since, and a person may send the same request again from elsewhere. It is stored in records. So the message
// of these fields must not change: newer ones are appended, and only if they are set.
func Fingerprint(r *Request) uint64 {
	sent := Request{Op: r.Op, Namespace: r.Namespace, Limit: r.Limit, Entries: r.own(), Hold: r.Hold,
		//mutant:correction-of-any-id
		Settlement: r.Settlement, Adjustment: r.Adjustment, Tally: r.Tally, System: r.System}
	if a := r.Adjustment; a != nil {
		sent.Adjustment = new(*a)
		sent.Adjustment.Actor = ""
	}
	c := MessageWriter(make([]byte, 0, 128))
	c.Request(&sent)
	return xxhash.Sum64(c.Written())
}
