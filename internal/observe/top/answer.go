package top

import "slices"

// Query asks for the busiest keys of a namespace. Nodes send it to each other as JSON.
type Query struct {
	Namespace string
	Policies  []string `json:",omitempty"` // empty for all
	Order     Measure
	Span      Span
	Count     int  // keys of each policy
	Traffic   bool `json:",omitempty"` // whether to include the Traffic
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

// Answer is what all nodes know.
type Answer struct {
	Policies []Policy  // by name
	Cut      bool      // some policies were left out, to keep a node's counts within their size
	Traffic  []Traffic // the last ten minutes of answers, the oldest first, if the query asks for it
}

// Policy is one policy with its busiest keys, in the order of the query.
type Policy struct {
	Name   string
	Since  int64 // start of the counts, in microseconds since the Unix epoch
	Totals [measures]uint64
	Keys   []Key
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

// Join makes the answer from the counts of all nodes. What the owners have counted of a key and what each node has
// repeated is added up. Where a key is not listed, it may have as much as the floor.
func Join(q *Query, nodes []Counts) (whole Answer) {
	var owned, all []List
	for i := range nodes {
		owned = append(owned, nodes[i].Owned...)
		all = append(all, nodes[i].Repeated...)
		whole.Cut = whole.Cut || nodes[i].Cut
	}
	for _, name := range namesOf(append(all, owned...)) {
		if name == "" {
			continue
		}
		// On some shards the policy may be in a shared table.
		sums := []List{joined(name, named(owned, name, ""), Unite)}
		for i := range nodes {
			listed := named(nodes[i].Repeated, name)
			if len(listed) == 0 {
				listed = named(nodes[i].Repeated, "")
			}
			sums = append(sums, listed...)
		}
		l := joined(name, sums, Merge)
		l.cut(q.Order, q.Count)
		whole.Policies = append(whole.Policies, l.policy(q.Order))
	}
	whole.Traffic = joinTraffic(nodes)
	return whole
}
