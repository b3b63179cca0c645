package top

// Answer is what all nodes know.
type Answer struct {
	Policies []Policy  // by name
	Cut      bool      // some policies were left out, to keep a node's counts within their size
	Traffic  []Traffic // the last ten minutes of answers, the oldest first, if the query asks for it
}

// Policy is one policy with its busiest keys, in the order of the query.
type Policy struct {
	Name   string
	Since  int64            // start of the counts, in microseconds since the Unix epoch; the latest of all shards
	Totals [measures]uint64 // by Measure; of all keys, or of the listed ones if the policy shares a table
	Keys   []Key
}

// Key is one key of a policy.
type Key struct {
	Key       string
	Estimates [measures]Estimate // by Measure
}

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
