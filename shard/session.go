package shard

import (
	"errors"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/codec"
)

// Session identifies a sequence of requests from one entry node to one shard. If the outcome of a request is unknown,
// the node can send it again, even to another owner, and it is counted once. The shard names the session by the place
// in its log where it was opened, so names are unique and involve no clock.
//
// The entry node numbers its requests from 1, and sends with each the number up to which all are finished. For the
// numbers above that, the shard remembers which were counted: one bit for each. A copy of a finished request, or of a
// forgotten session's, is refused. A copy of a counted request gets the first answer again, for the newest thousands of
// them. A copy of an older one gets "allowed", or "denied" if its denial was counted, with the current limits. A denial
// that counted nothing is not remembered, unless the request says Retry: then a later copy must not be admitted after
// its caller got a "no".
//
// So an entry node that has sent a second copy accepts a "no" only from copies with Retry. It may accept an "allowed"
// from any copy. SessionGone says nothing about other copies: the session's counted numbers are forgotten with it.
type Session struct {
	Epoch, Seq uint64
	Index      uint32 // among the sessions opened by that entry
}

const (
	// sessionRetention is how long a session is remembered after its record was last written.
	sessionRetention = limit.Span(600e6)
	// sessionWindow bounds how far a number may be above the finished ones, and thereby the record: two sets of numbers
	// of at most 8 KiB each, usually of a few bytes.
	sessionWindow = 65536
	// sessionAckStep is how far the finished numbers may be ahead of the record while nothing else in it changes.
	sessionAckStep = 64
	// sessionTallies bounds the newest tallies that a session remembers, at about four bytes each. A copy of an older
	// one gets an unknown outcome, but is still counted only once.
	sessionTallies = 4096
)

// session is the shard's memory of one session, while an evaluation works on it.
type session struct {
	name    Session
	acked   uint64        // every number up to this one is finished
	counted numbers       // above acked: admitted, or denied and counted
	closed  numbers       // above acked: answered "no" for good
	tallies []tallyReplay // above acked, by number: answers to tallies, which cannot be derived from the later state
	// answered and fresh are the answers to checks.
	answered []answers // of earlier batches, oldest first
	fresh    answersUnderWay
	few      [4]answers // initial memory for answered
	// kept are the counted numbers that may have records of their own for their answers, and denied are the counted
	// denials. Both are subsets of counted.
	kept, denied numbers
	dirty        bool   // numbers were added
	written      uint64 // acked in the record
	bytes        int    // of the effect, as added to the evaluation's total; 0 if not yet added
}

// ack records that every number up to acked is finished.
func (s *session) ack(acked uint64) {
	if acked > s.acked {
		s.acked = acked
		for _, set := range []*numbers{&s.counted, &s.closed, &s.kept, &s.denied} {
			set.dropThrough(acked)
		}
		s.tallies = s.tallies[placeOfReplay(s.tallies, acked+1):]
		s.dropAnswers()
	}
}

// changed reports whether the record must be written. Finished numbers are dropped from it in steps: until then the
// record remembers more than necessary, which is harmless.
func (s *session) changed() bool { return s.dirty || s.acked-s.written >= sessionAckStep }

// size returns the approximate size of the effect.
func (s *session) size() int {
	return 64 + len(s.counted.bits) + len(s.closed.bits) + len(s.kept.bits) + len(s.denied.bits) + 6*len(s.tallies) +
		s.answerBytes()
}

func (s *session) put(now limit.Time) Put {
	var key [48]byte
	return Put{Key: string(appendSessionKey(key[:0], s.name)),
		Record: Record{Value: s.encode(), ForgetAt: now + limit.Time(sessionRetention)}}
}

func (s *session) encode() []byte {
	s.dropAnswers()
	c := codec.Writer(append(make([]byte, 0, s.size()), recordFormat))
	s.code(&c)
	return c.Written()
}

// code is the record after its format.
func (s *session) code(c *codec.Codec) {
	c.Uint64(&s.acked)
	s.counted.code(c, s.acked)
	s.closed.code(c, s.acked)
	s.codeReplays(c)
	s.codeAnswers(c)
	s.kept.code(c, s.acked)
	s.denied.code(c, s.acked)
}

func decodeSession(name Session, value []byte) (*session, error) {
	c, s := codec.Over(value), &session{name: name}
	var format byte
	codec.Byte(&c, &format)
	s.code(&c)
	s.written = s.acked
	if !c.Whole() || format != recordFormat || !s.kept.within(&s.counted) || !s.denied.within(&s.counted) {
		return nil, errors.New("shard: session record is malformed or of an unknown format")
	}
	return s, nil
}
