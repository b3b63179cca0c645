package shard

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// A caller with a counted first copy gets that copy's answer from the next owner, with the place that allows a refund,
// regardless of later counts.
func TestACopyOfACheckHearsWhatTheFirstWouldHaveHeard(t *testing.T) {
	shadowed := onePolicy(limit.Limit{Algorithm: limit.Lifetime, Quota: 1}, bucketLimit)
	shadowed.Limits[0].Shadow, shadowed.Name = true, "shadowed"
	w := newWorld(t, onePolicy(windowLimit), shadowed)
	s := opened(w, origin)
	var requests []Request
	for i := range 40 {
		r := checkOf("p", fmt.Sprint("key ", i%3), uint64(1+i))
		switch i % 4 {
		case 1:
			r.Entries = append(r.Entries, Entry{Policy: "shadowed", Key: "k", Cost: 1})
		case 2:
			r.Op = Count
		case 3:
			r = checkOf("shadowed", "k", 2)
		}
		requests = append(requests, inSession(r, s, uint64(40-i), 0)) // they arrive in any order
	}
	first, _ := w.batch(origin+1, requests[:25]...)
	second, _ := w.batch(origin+2, requests[25:]...)
	first = append(first, second...)
	w.batch(origin+limit.Time(2*minute), checkOf("p", "key 0", 9), checkOf("shadowed", "k", 9))
	for i, r := range requests {
		r.Retry = true
		again, _ := w.batch(w.state.Time()+1, r)
		want := first[i]
		if want.Decision.Replayed = true; !reflect.DeepEqual(again[0], want) {
			t.Errorf("request %d:\nagain %+v\nfirst %+v", i, again[0], want)
		}
	}
}

// The record of a session stays small whatever is in progress, and the newest batch is always remembered.
func TestTheAnswersOfASessionAreBounded(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit), &policy.Policy{Name: "other", Limits: onePolicy(bucketLimit).Limits,
		Retention: policy.DefaultRetention})
	s := opened(w, origin)
	number := uint64(0)
	for batch := range 30 {
		var requests []Request
		for i := range 400 {
			number++
			requests = append(requests, inSession(checkOf([]string{"p", "other"}[i%2], fmt.Sprint(batch, i), 1),
				s, number, 0))
		}
		w.batch(w.state.Time()+limit.Time(second), requests...)
		kept, size := recordOf(w, s)
		if most := 64 + int(number)/8 + sessionAnswers + 100; size > most {
			t.Fatalf("%d requests under way: a record of %d bytes", number, size)
		}
		if d, found := kept.answerTo(number, 3, &requests[399]); !found || d.Limits[0].Key != fmt.Sprint(batch, 399) {
			t.Fatalf("the newest of %d is answered %+v", number, d)
		}
	}
	early := inSession(checkOf("p", "00", 1), s, 1, 0)
	if early.Retry = true; w.decided(early).Index != 0 {
		t.Error("nothing was forgotten: the test is too small")
	}
	w.batch(w.state.Time()+1, inSession(checkOf("p", "k", 1), s, number+1, number))
	if kept, size := recordOf(w, s); len(kept.answered) != 1 || size > 100 {
		t.Errorf("when all is finished the record has %d bytes", size)
	}
}

// decided returns the current answer to a request.
func (w *world) decided(r Request) Decision {
	results, _ := w.batch(w.state.Time()+1, r)
	if results[0].Err != nil {
		w.Fatal(results[0].Err)
	}
	return results[0].Decision
}

// A record with kept or denied numbers that were not counted is corrupt: it would lose them when written again.
func TestASessionThatKeepsWhatItNeverCountedIsMalformed(t *testing.T) {
	for name, damage := range map[string]func(*session){
		"kept":   func(s *session) { s.kept.add(77) },
		"denied": func(s *session) { s.denied.add(77) },
		"before": func(s *session) { s.kept.from = 0; s.kept.bits = []byte{2} },
		"empty":  func(s *session) { *s = session{name: s.name}; s.kept.add(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{name: Session{1, 1, 1}}
			s.counted.add(40)
			s.kept.add(40)
			if _, err := decodeSession(s.name, s.encode()); err != nil {
				t.Fatalf("sound: %v", err)
			}
			damage(s)
			value := s.encode()
			if _, err := decodeSession(s.name, value); err == nil {
				t.Errorf("%x was read", value)
			}
		})
	}
}
