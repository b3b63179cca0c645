package shard

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The commands of stories about tallies, in addition to those of TestTranscripts:
//
//	tally add|set|end|keep|drop ~POLICY/KEY [amount=N] [ttl=D|at=D] [nx|xx|gt|lt|sooner] [keepttl]
//	readtally ~POLICY/KEY
var (
	storyVerbs = map[string]TallyVerb{"add": TallyAdd, "set": TallySet, "end": TallyEnd, "keep": TallyKeep,
		"drop": TallyDrop}
	storyWhens = map[string]TallyWhen{"nx": TallyAbsent, "xx": TallyPresent, "gt": TallyLater, "lt": TallyEarlier,
		"sooner": TallySooner}
)

// tallyTerms parses the tally parameters of a line and returns them with the other words.
func tallyTerms(words []string) (*TallyTerms, []string) {
	if words[0] != "tally" {
		return nil, words
	}
	t := &TallyTerms{Verb: storyVerbs[words[1]], KeepTTL: has(words, "keepttl")}
	rest := []string{"tally"}
	for _, word := range words[2:] {
		if when, ok := storyWhens[word]; ok {
			t.When = when
		} else if word != "keepttl" {
			rest = append(rest, word)
		}
	}
	if text := option(words, "amount"); text != "" {
		amount, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(err)
		}
		t.Amount = amount
	}
	if text := option(words, "ttl"); text != "" {
		t.TTL = limit.Span(instant(text) - origin)
	}
	if text := option(words, "at"); text != "" {
		t.At, t.TTL = true, limit.Span(instant(text))
	}
	return t, rest
}

func (s *storyteller) tellTally(d *Decision) {
	if d.Tallied != nil {
		s.out.WriteString(":" + tallyWords(d.Tallied))
	}
}

func tallyWords(t *Tallied) (text string) {
	text = " none"
	if t.Known {
		text = fmt.Sprintf(" %d", t.Value)
	}
	if t.EndsAt != 0 {
		text += " until " + clock(t.EndsAt)
	}
	if t.Done {
		text += fmt.Sprintf(" (was %d)", t.Before)
	}
	return text
}

// tallyOf returns a Tally of a key without a policy name.
func tallyOf(key string, terms TallyTerms) Request {
	return Request{Op: Tally, Namespace: "default", Entries: []Entry{{Key: key, Cost: 1, Limits: TallyLimits}},
		Tally: &terms}
}

// An invalid tally request is refused with its field, and counts nothing.
func TestATallyThatIsNoneIsRefused(t *testing.T) {
	good := func() Request { return tallyOf("k", TallyTerms{Verb: TallyAdd, Amount: 1}) }
	for name, c := range map[string]struct {
		change func(r *Request)
		code   Code
		field  string
	}{
		"two keys":  {func(r *Request) { r.Entries = append(r.Entries, r.Entries[0]) }, Invalid, "entries"},
		"no limits": {func(r *Request) { r.Entries[0].Limits = nil }, Invalid, "entries[0].limits"},
		"other limits": {func(r *Request) { r.Entries[0].Limits = inlines[0].Limits }, Invalid,
			"entries[0].limits"},
		"no terms":            {func(r *Request) { r.Tally = nil }, Invalid, "tally"},
		"no verb":             {func(r *Request) { r.Tally.Verb = 0 }, NotBuilt, "tally"},
		"a verb to come":      {func(r *Request) { r.Tally.Verb = TallyDrop + 1 }, NotBuilt, "tally"},
		"a condition to come": {func(r *Request) { r.Tally.When = TallySooner + 1 }, NotBuilt, "tally"},
		"a count if absent":   {func(r *Request) { r.Tally.When = TallyAbsent }, Invalid, "tally.when"},
		"a set if later": {func(r *Request) { r.Tally.Verb, r.Tally.When = TallySet, TallyLater }, Invalid,
			"tally.when"},
		"a set that has ended": {func(r *Request) { r.Tally.Verb, r.Tally.TTL = TallySet, -1 }, Invalid, "tally.ttl"},
		"a count that ends":    {func(r *Request) { r.Tally.At = true }, Invalid, "tally.ttl"},
		"a set at no instant":  {func(r *Request) { r.Tally.Verb, r.Tally.At = TallySet, true }, Invalid, "tally.ttl"},
		"two ends": {func(r *Request) { r.Tally.Verb, r.Tally.TTL, r.Tally.KeepTTL = TallySet, 1, true },
			Invalid, "tally.ttl"},
		"an end after all time": {func(r *Request) { r.Tally.Verb, r.Tally.TTL = TallySet, limit.Span(limit.MaxTime) },
			Invalid, "tally.ttl"},
	} {
		w := newWorld(t, onePolicy(windowLimit))
		r := good()
		c.change(&r)
		results, puts := w.batch(origin, r)
		if err := results[0].Err; err == nil || err.Code != c.code || err.Field != c.field || len(puts) > 0 {
			t.Errorf("%s: %+v, %v", name, results[0], puts)
		}
	}
}

// A session remembers the newest tallies: a copy of an older one is not counted again, and gets no wrong answer.
func TestAForgottenTallyIsHonestlyUnknown(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	session := opened(w, origin)
	numbered := func(n uint64) Request {
		r := tallyOf("k", TallyTerms{Verb: TallyAdd, Amount: 1})
		r.Session, r.Number, r.Retry = session, n, true
		return r
	}
	for first := uint64(1); first <= sessionTallies+1; first += 100 {
		var some []Request // each entry writes the whole session
		for n := first; n < first+100 && n <= sessionTallies+1; n++ {
			some = append(some, numbered(n))
		}
		results, _ := w.batch(origin+limit.Time(first), some...)
		for i, r := range results {
			if n := first + uint64(i); r.Err != nil || r.Decision.Tallied.Value != int64(n) {
				t.Fatalf("the %d-th is %+v", n, r)
			}
		}
	}
	results, puts := w.batch(origin+limit.Time(minute), numbered(1), numbered(2))
	if err := results[0].Err; err == nil || err.Code != UnknownOutcome || len(puts) > 0 {
		t.Errorf("the forgotten one: %+v, %v", results[0], puts)
	}
	if d := results[1].Decision; results[1].Err != nil || d.Tallied == nil || d.Tallied.Value != 2 || !d.Replayed {
		t.Errorf("the oldest that is not forgotten: %+v", results[1])
	}
}

// Units taken from a key before it was dropped are not given back, by a decision or by a hold, which stays open.
func TestWhatWasTakenOfADroppedKeyIsNotGivenBack(t *testing.T) {
	limits := append([]policy.Limit{{Name: "quota", Limit: lifetimeOf(10)}}, TallyLimits...)
	entry := func(cost uint64) Entry { return Entry{Key: "k", Cost: cost, Limits: limits} }
	check := Request{Op: Check, Namespace: "default", Entries: []Entry{entry(4)}}
	for _, taking := range []Request{check, reserveOf(entry(3))} {
		w := newWorld(t, onePolicy(windowLimit))
		taken := w.must(origin, taking)
		w.must(origin+1, tallyOf("k", TallyTerms{Verb: TallyAdd, Amount: 5}))
		w.must(origin+2, tallyOf("k", TallyTerms{Verb: TallyDrop}))
		w.must(origin+3, check)
		w.must(origin+4, settleOf(taking, taken, Settlement{Action: ActionCancel}))
		d := w.must(origin+5, Request{Op: Get, Namespace: "default", Entries: []Entry{entry(0)}})
		if d.Limits[0].Used != 4 || d.Limits[1].Used != 4 && taking.Op == Reserve {
			t.Errorf("after op %d: of the limit 4 were taken since, %d count; of the tally %d",
				taking.Op, d.Limits[0].Used, d.Limits[1].Used)
		}
	}
}

// The previous value is in the same answer, even for copies.
func TestATallySaysWhatThereWas(t *testing.T) {
	w := newWorld(t, onePolicy(windowLimit))
	s := opened(w, origin)
	ask := func(number uint64, terms TallyTerms) Result {
		results, _ := w.batch(w.state.Time()+1, inSession(Request{Op: Tally, Namespace: "default",
			Entries: []Entry{{Key: "k", Cost: 1, Limits: TallyLimits}}, Tally: &terms}, s, number, 0))
		return results[0]
	}
	steps := []struct {
		terms TallyTerms
		want  Tallied
	}{
		{TallyTerms{Verb: TallySet}, Tallied{Known: true, Done: true}},
		{TallyTerms{Verb: TallySet, Amount: 7}, Tallied{Known: true, Done: true, Was: true, Value: 7}},
		{TallyTerms{Verb: TallySet, When: TallyAbsent}, Tallied{Known: true, Was: true, Before: 7, Value: 7}},
		{TallyTerms{Verb: TallyDrop}, Tallied{Done: true, Was: true, Before: 7}},
		{TallyTerms{Verb: TallyDrop}, Tallied{}},
	}
	for copy := range 2 {
		for i, step := range steps {
			r := ask(uint64(i+1), step.terms)
			if r.Err != nil || *r.Decision.Tallied != step.want || r.Decision.Replayed != (copy == 1) {
				t.Errorf("step %d, copy %d: %+v %+v, want %+v", i, copy, r, r.Decision.Tallied, step.want)
			}
		}
	}
}
