package shard

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
)

// inSession puts a request into a session.
func inSession(r Request, s Session, number, acked uint64) Request {
	r.Session, r.Number, r.Acked = s, number, acked
	return r
}

// opened opens a session in a world.
func opened(w *world, now limit.Time) Session {
	w.Helper()
	results, _ := w.batch(now, Request{Op: OpenSession})
	if results[0].Err != nil {
		w.Fatal(results[0].Err)
	}
	return results[0].Decision.Answer().Session
}

// recordOf returns the decoded record of a session.
func recordOf(w *world, s Session) (kept *session, size int) {
	w.Helper()
	record, found := w.Lookup(string(appendSessionKey(nil, s)))
	if !found {
		return nil, 0
	}
	kept, err := decodeSession(s, record.Value)
	if err != nil {
		w.Fatal(err)
	}
	return kept, len(record.Value)
}

// fullSession returns a session that remembers as much as possible, starting in the middle of a byte.
func fullSession() *session {
	s := &session{acked: 1003}
	for n := s.acked + 1; n <= s.acked+sessionWindow; n++ {
		if n%3 == 0 {
			s.closed.add(n)
		} else {
			s.counted.add(n)
		}
	}
	return s
}

func TestSessionComesBack(t *testing.T) {
	far := &session{acked: math.MaxUint64 - 9}
	far.counted.add(math.MaxUint64)
	sparse := &session{acked: 7}
	sparse.closed.add(7 + sessionWindow)
	for _, s := range []*session{{}, {acked: 300}, far, sparse, fullSession()} {
		s.written = s.acked
		value := s.encode()
		got, err := decodeSession(s.name, value)
		if err != nil || got.acked != s.acked || got.written != s.acked || !sameNumbers(got.counted, s.counted) ||
			!sameNumbers(got.closed, s.closed) {
			t.Errorf("%+v came back as %+v, %v", s, got, err)
		}
		for n := range len(value) {
			if n > 64 && n < len(value)-64 {
				continue
			}
			if _, err := decodeSession(s.name, value[:n]); err == nil {
				t.Errorf("%d of %d bytes are enough", n, len(value))
			}
		}
		if _, err := decodeSession(s.name, append(value, 0)); err == nil {
			t.Error("a byte more does not matter")
		}
	}
	if n := len(sparse.encode()); n > 16 {
		t.Errorf("one number far from the finished ones takes %d bytes", n)
	}
	if n := len(fullSession().encode()); n > 2*sessionWindow/8+32 {
		t.Errorf("a full record has %d bytes", n)
	}
}

func sameNumbers(a, b numbers) bool {
	return len(a.bits) == 0 && len(b.bits) == 0 || a.from == b.from && bytes.Equal(a.bits, b.bits)
}

// Records that no session could have produced are refused.
func TestSessionRecordOfAnotherVersionIsRefused(t *testing.T) {
	for name, value := range map[string][]byte{
		"format":                {2, 0, 0, 0, 0, 0},
		"a first byte of 0":     {1, 0, 1, 2, 0, 1, 0, 0},
		"a last byte of 0":      {1, 0, 0, 2, 2, 0, 0, 0},
		"a finished number":     {1, 9, 0, 1, 3, 0, 0},
		"bytes left out before": {1, 0, 5, 0, 0, 0},
		"beyond the window":     {1, 0, 0x82, 0x40, 1, 1, 0, 0},
		"empty":                 {},
	} {
		if s, err := decodeSession(Session{}, value); err == nil {
			t.Errorf("%s: taken as %+v", name, s)
		}
	}
}

// A set of numbers is a map of numbers.
func TestNumbersAreAMap(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	for range 300 {
		var set numbers
		want := map[uint64]bool{}
		acked := rnd.Uint64N(100)
		for range rnd.IntN(200) {
			n := acked + 1 + rnd.Uint64N(1+rnd.Uint64N(300))
			if rnd.IntN(4) == 0 {
				acked += rnd.Uint64N(40)
				set.dropThrough(acked)
				for m := range want {
					if m <= acked {
						delete(want, m)
					}
				}
			} else {
				set.add(n)
				want[n] = true
			}
			for n := range acked + 400 {
				if set.has(n) != want[n] {
					t.Fatalf("%d is in it: %v, must be %v; %+v above %d", n, set.has(n), want[n], set, acked)
				}
			}
			if b := set.bits; len(b) > 0 && (b[0] == 0 || b[len(b)-1] == 0) {
				t.Fatalf("empty bytes are kept: %+v", set)
			}
		}
	}
}

// Numbers too far above the finished ones are refused: as not applied, unless there are other copies of the request.
func TestWindowOfASession(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	s := opened(w, origin)
	far := func(number, acked uint64, retry bool) Result {
		r := inSession(checkOf("p", "k", 1), s, number, acked)
		r.Retry = retry
		results, _ := w.batch(w.state.Time()+1, r)
		return results[0]
	}
	if r := far(sessionWindow, 0, false); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := far(sessionWindow+1, 0, false); r.Err == nil || r.Err.Code != Overloaded {
		t.Errorf("beyond the window: %+v", r)
	}
	if r := far(sessionWindow+1, 0, true); r.Err == nil || !r.Err.MaybeApplied() {
		t.Errorf("a copy beyond the window: %+v", r)
	}
	if r := far(sessionWindow+1, 1, true); r.Err != nil || r.Decision.Replayed {
		t.Errorf("with one more finished: %+v", r)
	}
	// A large gap in the numbers costs no memory.
	if r := far(math.MaxUint64, math.MaxUint64-1, false); r.Err != nil {
		t.Error(r.Err)
	}
	if kept, size := recordOf(w, s); size > 20+kept.answerBytes() || len(kept.answered) != 1 ||
		kept.acked != math.MaxUint64-1 || !kept.counted.has(math.MaxUint64) {
		t.Errorf("%+v in %d bytes", kept, size)
	}
}

// A batch is cut where the records of its sessions fill an entry, and each is written once.
func TestSessionsFillAnEntry(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	var puts []Put
	var requests []Request
	for i := range 100 {
		s := fullSession()
		s.name = Session{1, 1, uint32(i + 1)}
		puts = append(puts, s.put(origin))
		first := inSession(checkOf("p", "k", 1), s.name, s.acked+sessionWindow+9, s.acked+9)
		again := first
		again.Number--
		requests = append(requests, first, again)
	}
	for len(puts) > 0 {
		w.append(EncodeBatch(w.next(origin), puts[:5]))
		puts = puts[5:]
	}
	for len(requests) > 0 {
		at := w.next(w.state.Time() + 1)
		results, puts := Evaluate(w, w.policies, requests, at)
		payload := EncodeBatch(at, puts)
		if len(payload) > MaxEntryBytes || len(results) < len(requests) && len(payload) < MaxEntryBytes/2 {
			t.Fatalf("an entry of %d bytes with %d of %d requests", len(payload), len(results), len(requests))
		}
		if sessions := (len(results) + 1) / 2; len(puts) > sessions+2 {
			t.Fatalf("%d effects of about %d sessions", len(puts), sessions)
		}
		for i := range results {
			if results[i].Err != nil {
				t.Fatal(results[i].Err)
			}
		}
		w.append(payload)
		requests = requests[len(results):]
	}
}

// Finished numbers leave the record even if nothing else changes.
func TestFinishedNumbersLeaveTheRecord(t *testing.T) {
	denying := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 1})
	w := newWorld(t, denying)
	s := opened(w, origin)
	written := 0
	for number := uint64(1); number <= 10*sessionAckStep; number++ {
		_, puts := w.batch(w.state.Time()+1, inSession(checkOf("p", "k", 2), s, number, number-1))
		written += len(puts)
		if kept, _ := recordOf(w, s); number-1-kept.acked >= sessionAckStep {
			t.Fatalf("%d are finished, the record says %d", number-1, kept.acked)
		}
	}
	if written != 9 {
		t.Errorf("%d effects of denials: a session's record is written every %d", written, sessionAckStep)
	}
}

// Requests outside of sessions leave no trace in a session, whatever else they contain.
func TestRequestsWithoutASessionAreAsBefore(t *testing.T) {
	plain, dressed := newWorld(t, onePolicy(windowLimit)), newWorld(t, onePolicy(windowLimit))
	for i := range 10 {
		r := checkOf("p", "k", uint64(1+i))
		want, wantPuts := plain.batch(origin+limit.Time(i), r)
		r.Number, r.Acked, r.Retry, r.Document, r.Expect, r.Body = 7, 9, true, "d", 5, []byte("x")
		got, puts := dressed.batch(origin+limit.Time(i), r)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(puts, wantPuts) || len(puts) != 1 {
			t.Fatalf("%+v with %+v, expected %+v with %+v", got, puts, want, wantPuts)
		}
	}
}

// Operations unknown to this version are never answered with a decision.
func TestUnknownOperations(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	for _, op := range []Op{0, Lease + 1, math.MaxUint8} {
		r := checkOf("p", "k", 1)
		r.Op = op
		if results, puts := w.batch(origin, r); results[0].Err == nil || results[0].Err.Code != NotBuilt ||
			len(puts) > 0 {
			t.Errorf("%d: %+v, %v", op, results[0], puts)
		}
	}
}

func TestSessionsAreNamedByTheirPlace(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	seen := map[Session]bool{}
	for i := range 3 {
		w.append(EncodeEpochOpen(3, origin, LevelNewest))
		for j := range 3 {
			results, _ := w.batch(origin, Request{Op: OpenSession}, checkOf("p", "k", 1), Request{Op: OpenSession})
			for k, result := range []Result{results[0], results[2]} {
				want := Session{w.state.Epoch(), w.state.Seq(), uint32(k + 1)}
				if d := result.Decision; d.Answer().Session != want || seen[want] || !d.Allowed || d.Index != 0 ||
					d.DecidedAt != origin {
					t.Errorf("session %d of batch %d: %+v", k, 3*i+j, d)
				}
				seen[want] = true
			}
		}
	}
	for name, r := range map[string]Request{
		"entries": {Op: OpenSession, Entries: []Entry{{}}}, "id": {Op: OpenSession, ID: "x"},
	} {
		if results, puts := w.batch(origin, r); results[0].Err == nil || results[0].Err.Code != Invalid ||
			len(puts) > 0 {
			t.Errorf("with %s: %+v", name, results[0])
		}
	}
	if len(seen) != 18 {
		t.Error(fmt.Sprint(len(seen), " sessions"))
	}
}

// TestACopyOfADenialOutlivesItsID: a denial that was counted is no admission for a copy that comes when its id is
// forgotten, as a policy may have it forgotten before copies are.
func TestACopyOfADenialOutlivesItsID(t *testing.T) {
	p := onePolicy(limit.Limit{Algorithm: limit.FixedWindow, Quota: 1, Period: minute})
	p.CountDenied, p.Retention = true, second
	w := newWorld(t, p)
	s := opened(w, origin)
	w.must(origin+1, checkOf("p", "k", 1))
	guess := inSession(checkOf("p", "k", 1), s, 1, 0)
	guess.ID = "id"
	first := w.must(origin+2, guess)
	if first.Allowed || first.Index == 0 {
		t.Fatalf("%+v", first)
	}
	for _, later := range []limit.Span{3, second, minute} {
		guess.Retry = true
		if copied := w.must(origin+2+limit.Time(later), guess); copied.Allowed || !copied.Replayed ||
			copied.RetryAfter == 0 {
			t.Errorf("%d later: %+v", later, copied)
		}
	}
}

// TestACopyOfAChangeTellsOfLeases: the node that asked for a change has the leases returned that were open at it, also
// if it was a copy that was answered.
func TestACopyOfAChangeTellsOfLeases(t *testing.T) {
	w := newWorld(t, leasing(leasable["log"]))
	s := opened(w, origin)
	granted := w.lease(origin+1, "a", 40)
	block := inSession(adjustOf(Block, "p", "k", Adjustment{Until: origin + limit.Time(minute)}), s, 1, 0)
	w.must(origin+2, block)
	block.Retry = true
	if d := w.must(origin+3, block); d.Answer().Lease == nil || *d.Answer().Lease != granted {
		t.Errorf("%+v", d)
	}
}
