package placement

import "testing"

// A wrong guess deposes an owner that lives. So a survivor stands only if a majority of the voters has evidence that
// the leader has died, and only the one with the newest log.
func TestWhoSucceedsALeaderThatHasDied(t *testing.T) {
	// a and b have evidence that c, which led term 5, has died; all logs are equal.
	a := Survivor{Shard: 1, Name: "a/1/2", Dead: true, Leader: "c/1/1", Term: 5, LastTerm: 5, LastIndex: 9}
	b := Survivor{Shard: 1, Name: "b/1/3", Dead: true, Leader: "c/1/1", Term: 5, LastTerm: 5, LastIndex: 9}
	three := []string{"a/1/2", "b/1/3", "c/1/1"}
	first := []string{"a/1/1", "b/1/1", "c/1/1"} // those that found a group
	five := append([]string{"d/1/4", "e/1/5"}, three...)
	with := func(s Survivor, edit func(*Survivor)) Survivor {
		edit(&s)
		return s
	}
	named := func(name string, of Survivor) Survivor { return with(of, func(s *Survivor) { s.Name = name }) }
	for _, c := range []struct {
		what   string
		self   Survivor
		voters []string
		others []Survivor
		want   bool
	}{
		{"both have evidence", a, three, []Survivor{b}, true},
		{"of equals, the one with the lowest number stands", b, three, []Survivor{a}, false},
		{"of equals with one number, the first node stands", named("a/1/1", a), first,
			[]Survivor{named("b/1/1", b)}, true},
		{"of equals with one number, the second node does not", named("b/1/1", b), first,
			[]Survivor{named("a/1/1", a)}, false},
		{"the node itself has no evidence", with(a, func(s *Survivor) { s.Dead = false }), three, []Survivor{b}, false},
		{"it knows no leader", with(a, func(s *Survivor) { s.Leader = "" }), three,
			[]Survivor{with(b, func(s *Survivor) { s.Leader = "" })}, false},
		{"nobody answers", a, three, nil, false},
		{"the other hears the leader", a, three, []Survivor{with(b, func(s *Survivor) { s.Dead = false })}, false},
		{"the other follows another leader", a, three,
			[]Survivor{with(b, func(s *Survivor) { s.Leader = "b/1/3" })}, false},
		{"the other is in a newer term", a, three, []Survivor{with(b, func(s *Survivor) { s.Term = 6 })}, false},
		{"the other speaks of another shard", a, three, []Survivor{with(b, func(s *Survivor) { s.Shard = 2 })}, false},
		{"the other's log has more", a, three, []Survivor{with(b, func(s *Survivor) { s.LastIndex = 10 })}, false},
		{"the other's log has a newer term", with(a, func(s *Survivor) { s.LastIndex = 90 }), three,
			[]Survivor{with(b, func(s *Survivor) { s.LastTerm = 6 })}, false},
		{"its own log has more, and the higher number", with(b, func(s *Survivor) { s.LastIndex = 10 }), three,
			[]Survivor{a}, true},
		{"a newer log counts without evidence too", a, five,
			[]Survivor{b, named("d/1/4", b), {Shard: 1, Name: "e/1/5", Term: 5, LastTerm: 5, LastIndex: 10}}, false},
		{"three of five", a, five, []Survivor{b, named("d/1/4", b)}, true},
		{"two of five, the others hear the leader", a, five,
			[]Survivor{b, named("d/1/4", with(b, func(s *Survivor) { s.Dead = false }))}, false},
		{"one answers twice", a, five, []Survivor{b, b}, false},
		{"two of four are no majority", a, append([]string{"d/1/4"}, three...), []Survivor{b}, false},
		{"a learner attests nothing", a, []string{"a/1/2", "c/1/1", "d/1/4"}, []Survivor{b}, false},
		{"nor is its log awaited", a, three,
			[]Survivor{b, named("d/1/4", with(b, func(s *Survivor) { s.LastIndex = 99 }))}, true},
		{"a learner does not stand", a, []string{"b/1/3", "c/1/1", "d/1/4"}, []Survivor{b, named("d/1/4", b)}, false},
	} {
		if got := Succeeds(&c.self, c.voters, c.others); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
