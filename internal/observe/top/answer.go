package top

import (
	"cmp"
	"slices"
)

// Query asks for the busiest keys of a namespace. Nodes send it to each other as JSON.
type Query struct {
	Namespace string
	Policies  []string `json:",omitempty"` // empty for all
	Order     Measure
	Span      Span
	Count     int  // keys of each policy
	Traffic   bool `json:",omitempty"` // whether to include Answer.Traffic
}

// Bounds of a Query, so that it fits into a message between nodes.
const (
	PoliciesMax = 16
	CountMax    = summaryKeys
)

// Known reports whether this release can answer the query: another node may run a newer one.
func (q *Query) Known() bool {
	return q.Order < measures && q.Span <= Hour && q.Count > 0 && q.Count <= CountMax
}

func (q *Query) wants(namespace, policy string) bool {
	return namespace == q.Namespace && (len(q.Policies) == 0 || slices.Contains(q.Policies, policy))
}

// Answer is what one node, or all of them, know.
type Answer struct {
	Policies []Policy `json:",omitempty"` // by name
	// Shared is Policy.Floors of policies missing from Policies: they may be in a shared table.
	Shared [measures]uint64
	// Repeated is the denials repeated by the node itself, by policy. Join adds them to Policies.
	Repeated []List `json:",omitempty"`
	// Cut means that some policies were left out, to keep the answer within its size.
	Cut bool `json:",omitempty"`
	// Traffic is the last ten minutes of answers, the oldest first, if the query asks for it.
	Traffic []Traffic `json:",omitempty"`
}

// Policy is one policy with its busiest keys, in the order of the query.
type Policy struct {
	Name   string
	Since  int64 // start of the counts, in microseconds since the Unix epoch
	Totals [measures]uint64
	Keys   []Key            `json:",omitempty"`
	Floors [measures]uint64 // upper bounds for keys that are not listed
}

// Key is one key of a policy.
type Key struct {
	Key       string
	Estimates [measures]Estimate // by Measure
}

// Estimate is a count: at most Count, and at least Count - Err.
type Estimate struct{ Count, Err uint64 }

// Least is what the count is at least.
func (e Estimate) Least() uint64 { return e.Count - e.Err }

func (e Estimate) plus(more Estimate) Estimate {
	return Estimate{e.Count + more.Count, e.Err + more.Err}
}

// Summarize makes the answer of one node from the parts of its shards. Each key lives on one shard, so the lists of
// shards need not be added up.
func Summarize(q *Query, parts []Part) (answer Answer) {
	var all []Policy
	for _, l := range listsOf(q, parts) {
		if l.Policy == "" {
			for m := range l.Of {
				answer.Shared[m] = max(answer.Shared[m], l.Of[m].Floor)
			}
		} else {
			all = append(all, l.policy(q))
		}
	}
	answer.Policies = concatenate(all)
	rank(q, answer.Policies)
	return answer
}

// Join makes one answer from those of several nodes.
func Join(q *Query, answers []Answer) (whole Answer) {
	var all []Policy
	for i := range answers {
		a := &answers[i]
		all = append(all, a.Policies...)
		whole.Cut = whole.Cut || a.Cut
		raise(&whole.Shared, a.Shared)
	}
	whole.Policies = concatenate(all)
	whole.Traffic = joinTraffic(answers)
	whole.addRepeated(q, answers)
	rank(q, whole.Policies)
	return whole
}

// raise makes each number at least that of others.
func raise(n *[measures]uint64, to [measures]uint64) {
	for m := range n {
		n[m] = max(n[m], to[m])
	}
}

// floorsOf returns the upper bounds for a key that is not listed in an order. Another measure may list it.
func floorsOf(order Measure, sums *[measures]Summary) (floors [measures]uint64) {
	listed := make(map[string]bool, len(sums[order].Rows))
	for _, r := range sums[order].Rows {
		listed[r.Key] = true
	}
	for m := range sums {
		floors[m] = sums[m].Floor
		for _, r := range sums[m].Rows {
			if !listed[r.Key] {
				floors[m] = max(floors[m], r.Count)
			}
		}
	}
	return floors
}

// policy lists the keys of a policy on one shard.
func (l *List) policy(q *Query) Policy {
	p := Policy{Name: l.Policy, Since: l.Since, Floors: floorsOf(q.Order, &l.Of)}
	for m := range l.Of {
		p.Totals[m] = l.Of[m].Total
	}
	for _, row := range l.Of[q.Order].Rows {
		k := Key{Key: row.Key}
		for m := range l.Of {
			k.Estimates[m] = l.Of[m].Of(row.Key)
		}
		p.Keys = append(p.Keys, k)
	}
	return p
}

// concatenate joins the lists of the same policy.
func concatenate(all []Policy) (joined []Policy) {
	slices.SortStableFunc(all, func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range all {
		if n := len(joined); n == 0 || joined[n-1].Name != p.Name {
			joined = append(joined, Policy{Name: p.Name})
		}
		into := &joined[len(joined)-1]
		into.Since = max(into.Since, p.Since)
		into.Keys = append(into.Keys, p.Keys...)
		raise(&into.Floors, p.Floors)
		for m := range p.Totals {
			into.Totals[m] += p.Totals[m]
		}
	}
	return joined
}

// rank sorts the keys of each policy and drops those beyond the count. A flood of keys with one request each has large
// counts and large errors, so the certain part decides the order.
func rank(q *Query, policies []Policy) {
	for i := range policies {
		p := &policies[i]
		slices.SortFunc(p.Keys, func(a, b Key) int {
			x, y := a.Estimates[q.Order], b.Estimates[q.Order]
			return cmp.Or(cmp.Compare(y.Least(), x.Least()), cmp.Compare(y.Count, x.Count), cmp.Compare(a.Key, b.Key))
		})
		for len(p.Keys) > q.Count {
			last := &p.Keys[len(p.Keys)-1]
			for m := range p.Floors {
				p.Floors[m] = max(p.Floors[m], last.Estimates[m].Count) //mutant:cut-list-has-no-floor
			}
			p.Keys = p.Keys[:len(p.Keys)-1]
		}
	}
}

// answerBytesMax bounds an answer on its way to another node: half of what a message may have, because JSON escapes.
const answerBytesMax = 1 << 20

// Bound drops policies until the answer fits into a message between nodes.
func (a *Answer) Bound() {
	n := 0
	for i := range a.Repeated {
		n += 256 + len(a.Repeated[i].Policy)
		for m := range a.Repeated[i].Of {
			for _, r := range a.Repeated[i].Of[m].Rows {
				n += 64 + len(r.Key)
			}
		}
		if n > answerBytesMax/2 {
			a.Repeated, a.Cut = a.Repeated[:i], true
			break
		}
	}
	for i := range a.Policies {
		n += 192 + len(a.Policies[i].Name)
		for j := range a.Policies[i].Keys {
			n += 192 + len(a.Policies[i].Keys[j].Key)
		}
		if n > answerBytesMax {
			a.Policies, a.Cut = a.Policies[:i], true
			return
		}
	}
}
