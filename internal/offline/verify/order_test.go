package verify

import "testing"

// Answers that crossed are compared only at the end: neither was known when the other was asked for.
func TestCrossedAnswersMustFitIntoOneOrder(t *testing.T) {
	at := func(seq uint64, at int64) mark { return mark{place{0, 7, seq}, at} }
	for name, test := range map[string]struct {
		units   []mark // of unit 1, 2, ...
		inOrder bool
	}{
		"one entry after the other":   {[]mark{at(1, 10), at(2, 11), at(2, 11), at(4, 15)}, true},
		"a unit nobody heard of":      {[]mark{at(1, 10), {}, at(2, 11)}, true},
		"time falls":                  {[]mark{at(1, 10), at(2, 9)}, false},
		"units against the log":       {[]mark{at(2, 11), at(1, 10)}, false},
		"one entry with two instants": {[]mark{at(1, 10), at(1, 11)}, false},
	} {
		k, s := &key{quota: 10, units: append([]mark{{}}, test.units...)}, newShards(0, nil).get(0)
		entered := error(nil)
		for _, m := range test.units {
			if m == (mark{}) {
				continue
			}
			if err := s.enter(m, mark{}); err != nil {
				entered = err
			}
		}
		if err := k.ordered(); (err == nil) != test.inOrder {
			t.Errorf("%s: units in order: %v", name, err)
		}
		if err := s.ordered(); name == "time falls" && err == nil {
			t.Errorf("%s: the shard's time is said to be in order", name)
		} else if test.inOrder && (err != nil || entered != nil) {
			t.Errorf("%s: %v, %v", name, err, entered)
		}
		if name == "one entry with two instants" && entered == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
