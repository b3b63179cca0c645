package shard

import (
	"encoding/binary"
	"errors"

	"github.com/stint-io/stint/limit"
)

// Session names a run of requests from one entry node to one shard, so that a request whose outcome became unknown can
// be sent again, to another owner if need be, and is counted once. The shard itself names it, by the place in its log
// where it was opened, so no name comes twice and no clock is involved.
//
// The entry node numbers its requests from 1 and says with each up to which number all are finished. The shard
// remembers, for the numbers above that, which were counted: a bit for each. A copy of a request that is finished, or
// whose session is forgotten, is refused; a copy of one that was counted is answered "allowed", with the limits as they
// are now; of a tally with what it was then. What was denied counted nothing and is not remembered, unless the request says Retry: then a copy that comes
// later must not be admitted after its caller heard "no".
//
// So an entry node that has sent a second copy takes a "no" only from copies that said Retry; an "allowed" it may take
// from any. SessionGone says nothing about other copies: what the session had counted is forgotten with it.
type Session struct {
	Epoch, Seq uint64
	Index      uint32 // among the sessions opened by that entry
}

const (
	// sessionRetention is how long a session is remembered after its record was last written.
	sessionRetention = limit.Span(600e6)
	// sessionWindow bounds how far a number may lie above the finished ones, and so the record: two sets of numbers of
	// at most 8 KiB each, of a few bytes as a rule.
	sessionWindow = 65536
	// sessionAckStep is how far the finished numbers may run ahead of the record while nothing else changes in it.
	sessionAckStep = 64
	// sessionTallies bounds the tallies that a session remembers, the newest: some four bytes each. A copy of an older one
	// hears that the outcome is not known, and it is counted once all the same.
	sessionTallies = 4096
)

// The formats of a session record, its first byte.
const (
	sessionFormat        = 1
	sessionFormatTallies = 2 // tallies follow
)

// session is what a shard remembers of one, while an evaluation works on it.
type session struct {
	name    Session
	acked   uint64  // every number up to this one is finished
	counted numbers // above it
	closed  numbers // above it: answered "no" for good
	tallies []told  // above it, by number: what was answered to tallies, which nobody can tell from what is there later
	dirty   bool    // numbers were added
	written uint64  // acked as the record has it
	bytes   int     // of the effect, as the evaluation has weighed it; 0: not yet
}

// ack takes note that every number up to acked is finished.
func (s *session) ack(acked uint64) {
	if acked > s.acked {
		s.acked = acked
		s.counted.dropThrough(acked)
		s.closed.dropThrough(acked)
		s.tallies = s.tallies[placeOfTold(s.tallies, acked+1):]
	}
}

// changed reports whether the record is to be written. Numbers that are finished are forgotten a step at a time: until
// then the record remembers more than it must, which does no harm.
func (s *session) changed() bool { return s.dirty || s.acked-s.written >= sessionAckStep }

// size is that of the effect, roughly.
func (s *session) size() int {
	return 64 + len(s.counted.bits) + len(s.closed.bits) + 6*len(s.tallies)
}

func (s *session) put(now limit.Time) Put {
	return Put{Key: string(appendSessionKey(nil, s.name)),
		Record: Record{Value: s.encode(), ForgetAt: now + limit.Time(sessionRetention)}}
}

// encode writes the record: format, acked, counted, closed, and tallies if there are any.
func (s *session) encode() []byte {
	b := make([]byte, 0, s.size())
	format := byte(sessionFormat)
	if len(s.tallies) > 0 {
		format = sessionFormatTallies
	}
	b = binary.AppendUvarint(append(b, format), s.acked)
	b = s.closed.append(s.counted.append(b, s.acked), s.acked)
	if format == sessionFormatTallies {
		b = appendTold(b, s.tallies, s.acked)
	}
	return b
}

func decodeSession(name Session, value []byte) (*session, error) {
	r := reader{rest: value}
	format := r.byte()
	s := &session{name: name, acked: r.uvarint()}
	s.written = s.acked
	s.counted, s.closed = r.numbers(s.acked), r.numbers(s.acked)
	if format == sessionFormatTallies {
		s.tallies = r.told(s.acked)
	}
	if r.failed || format < sessionFormat || format > sessionFormatTallies || len(r.rest) != 0 {
		return nil, errMalformedSession
	}
	return s, nil
}

var errMalformedSession = errors.New("shard: session record is malformed or of an unknown format")
