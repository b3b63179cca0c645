package top

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// exactly keeps every decision.
type exactly []decision

type decision struct {
	at     int64
	policy string
	key    string
	denied bool
	units  uint64
}

func (all exactly) since(policy string, from int64) (exact [measures]map[string]uint64) {
	for m := range exact {
		exact[m] = map[string]uint64{}
	}
	for _, d := range all {
		if d.policy != policy || d.at < from {
			continue
		}
		exact[Decisions][d.key]++
		if d.denied {
			exact[Denials][d.key]++
		}
		if d.units > 0 {
			exact[Units][d.key] += d.units
		}
	}
	return exact
}

// The windows of every span together are exactly the time since the instant that the answer tells.
func TestAnswersAreAboutTheirTime(t *testing.T) {
	for round := range uint64(12) {
		r := rand.New(rand.NewPCG(4, round))
		now := 1_000_000*hour + r.Int64N(hour)
		began := now
		board, next := NewBoard(NewBudget(0), now), traffic(r, 50, 400)
		var all exactly
		for range 400 {
			now += r.Int64N(2 * second)
			if r.IntN(20) == 0 {
				now += r.Int64N(15 * minute) // without queries
			}
			board.Advance(now)
			for range r.IntN(20) {
				d := decision{now, fmt.Sprint("p", r.IntN(2)), next(), r.IntN(4) == 0, r.Uint64N(5)}
				board.Add("ns", d.policy, d.key, d.denied, d.units)
				all = append(all, d)
			}
			q := Query{Namespace: "ns", Span: Span(r.IntN(3)), Count: CountMax}
			for _, p := range board.Read(&q, now) {
				if p.since < began || p.since > now || p.since > began && p.since > q.Span.begin(now) {
					t.Fatalf("round %d: since %d, now %d", round, p.since, now)
				}
				exact := all.since(p.policy, p.since)
				for m := range exact {
					sum := merged(p.windows, m)
					if err := judge(&sum, exact[m]); err != nil {
						t.Fatalf("round %d, policy %s, span %d, measure %d: %v", round, p.policy, q.Span, m, err)
					}
				}
			}
		}
		size := 0
		for _, table := range board.tables {
			size += table.size
		}
		if board.budget.Used() != size {
			t.Fatalf("round %d: the budget says %d, and the tables have %d", round, board.budget.Used(), size)
		}
		if board.Close(now); board.budget.Used() != 0 {
			t.Fatalf("round %d: %d bytes are left", round, board.budget.Used())
		}
	}
}

// However many policies and however long their keys: the budget holds, and the answers are true.
func TestTheBudgetHolds(t *testing.T) {
	const most = 1 << 20
	budget := NewBudget(most)
	r := rand.New(rand.NewPCG(5, 5))
	now := 1_000_000 * hour
	boards := []*Board{NewBoard(budget, now), NewBoard(budget, now)}
	all := make([]exactly, len(boards))
	anyShared, own := false, false
	for step := range 3000 {
		now += r.Int64N(second)
		i := r.IntN(len(boards))
		boards[i].Advance(now)
		for range 20 {
			d := decision{now, fmt.Sprint("p", r.IntN(1+step/20)),
				fmt.Sprint(r.IntN(50), strings.Repeat("k", r.IntN(400))), r.IntN(2) == 0, 1}
			boards[i].Add("ns", d.policy, d.key, d.denied, d.units)
			all[i] = append(all[i], d)
		}
		if used := budget.Used(); used < 0 || used > most {
			t.Fatalf("step %d: %d bytes are used", step, used)
		}
		if step%100 > 0 {
			continue
		}
		q := Query{Namespace: "ns", Span: Hour, Count: CountMax, Order: Decisions}
		for _, p := range Join(&q, []Counts{Collect(&q, boards[i].Read(&q, now), nil)}).Policies {
			exact := all[i].since(p.Name, p.Since)
			for _, k := range p.Keys {
				for m, e := range k.Estimates {
					// Older decisions may be in the list of a policy that has changed its table, so only this side is
					// exact.
					if n := exact[m][k.Key]; n > e.Count {
						t.Fatalf("step %d: %s had %d, and %d are told", step, p.Name, n, e.Count)
					}
				}
			}
		}
		_, shares := boards[i].tables[shared]
		anyShared, own = anyShared || shares, own || len(boards[i].tables) > 1
	}
	if !anyShared || !own {
		t.Errorf("tables of policies: %v, a shared one: %v", own, anyShared)
	}
	for _, b := range boards {
		b.Close(now)
	}
	if budget.Used() != 0 {
		t.Errorf("%d bytes are left", budget.Used())
	}
}

func TestTablesOfIdlePoliciesEnd(t *testing.T) {
	b := NewBoard(NewBudget(0), 0)
	b.Add("ns", "once", "k", false, 1)
	b.Advance(hour - ten)
	if len(b.tables) != 1 {
		t.Fatal("the table is gone within the hour")
	}
	b.Advance(2 * hour)
	b.Advance(4 * hour)
	if len(b.tables) != 0 || b.budget.Used() != 0 || b.newestTable != nil {
		t.Errorf("%d tables are left, of %d bytes", len(b.tables), b.budget.Used())
	}
}

// A flood of new keys does not push those out that are really asked about.
func TestWhatIsCertainComesFirst(t *testing.T) {
	b := NewBoard(NewBudget(0), 0)
	for i := range 100_000 {
		b.Add("ns", "p", fmt.Sprint("once-", i), true, 0)
		if i%500 == 0 {
			b.Add("ns", "p", "guesser", true, 0)
		}
	}
	q := Query{Namespace: "ns", Order: Denials, Count: 3}
	a := Join(&q, []Counts{Collect(&q, b.Read(&q, ten-1), nil)})
	if len(a.Policies) != 1 || len(a.Policies[0].Keys) != 3 || a.Policies[0].Totals[Denials] != 100_200 {
		t.Fatalf("%+v", a)
	}
	// Space-Saving lists what has more than 1/128 of the total. This key has less, and may be listed or not.
	for i := range 2000 {
		b.Add("ns", "p", "guesser", i%2 == 0, 0)
	}
	a = Join(&q, []Counts{Collect(&q, b.Read(&q, ten-1), nil)})
	if k := a.Policies[0].Keys[0]; k.Key != "guesser" || k.Estimates[Denials].Least() < 1000 {
		t.Errorf("the first is %+v", k)
	}
}

func TestAnswersOfNodesAreJoined(t *testing.T) {
	q := Query{Namespace: "ns", Order: Decisions, Count: 2}
	a, b := NewBoard(NewBudget(0), 0), NewBoard(NewBudget(0), 5)
	for i := range 10 {
		a.Add("ns", "p", fmt.Sprint("a", i%2), false, 1)
		b.Add("ns", "p", "b", false, 1)
		b.Add("other", "p", "c", false, 1)
		b.Add("ns", "q", "d", false, 1)
	}
	whole := Join(&q, []Counts{Collect(&q, a.Read(&q, 7), nil), Collect(&q, b.Read(&q, 7), nil)})
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Policies":[{"Name":"p","Since":5,"Totals":[20,0,20],"Keys":[` +
		`{"Key":"b","Estimates":[{"Count":10,"Err":0},{"Count":0,"Err":0},{"Count":10,"Err":0}]},` +
		// a1 is left out
		`{"Key":"a0","Estimates":[{"Count":5,"Err":0},{"Count":0,"Err":0},{"Count":5,"Err":0}]}]},` +
		`{"Name":"q","Since":5,"Totals":[10,0,10],"Keys":[{"Key":"d","Estimates":[{"Count":10,"Err":0},{"Count":0,` +
		`"Err":0},{"Count":10,"Err":0}]}]}],"Cut":false,"Traffic":null}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestCountsFitIntoAMessage(t *testing.T) {
	c := Counts{Owned: make([]List, 1000)}
	for i := range c.Owned {
		of := &c.Owned[i].Of[Denials]
		of.Rows = make([]Row, CountMax)
		for j := range of.Rows {
			of.Rows[j].Key = strings.Repeat("\"", 512) // as JSON twice as long
		}
	}
	c.Bound()
	text, err := json.Marshal(c)
	if err != nil || len(text) > 2<<20 || !c.Cut || len(c.Owned) == 0 {
		t.Errorf("%d bytes, cut %v, %d policies: %v", len(text), c.Cut, len(c.Owned), err)
	}
}
