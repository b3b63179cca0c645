package top

import (
	"cmp"
	"math"
	"slices"
)

// List is the counts of one policy: in a table of a shard, or among the denials that a node has repeated without asking
// the owners of the keys. A key lives on one shard, and several nodes may repeat its denials. A repeated denial is a
// decision and a denial; it admits nothing.
type List struct {
	// Policy is the name; "" stands for all policies that the node does not list, with known floors only.
	Policy string
	Since  int64             // start of the counts, in microseconds since the Unix epoch
	Of     [measures]Summary // by Measure
}

// listsOf makes a list of each policy of each part.
func listsOf(q *Query, parts []Part) (all []List) {
	for i := range parts {
		p := &parts[i]
		one := List{Policy: p.policy, Since: p.since}
		for m := range one.Of {
			one.Of[m] = merged(p.windows, m)
		}
		if p.policy == "" {
			all = append(all, one.split(q)...)
		} else {
			all = append(all, one)
		}
	}
	return all
}

// split divides a shared table's list by policies. Their totals are those of the listed keys only.
func (l *List) split(q *Query) (all []List) {
	bare := func(policy string) List {
		one := List{Policy: policy, Since: l.Since}
		for m := range one.Of {
			one.Of[m].Floor = l.Of[m].Floor
		}
		return one
	}
	all = append(all, bare("")) //mutant:shared-list-lacks-policies
	for m := range l.Of {
		for _, r := range l.Of[m].Rows {
			n, key := nameIn(r.Key)
			if !q.wants(n.namespace, n.policy) {
				continue
			}
			at := slices.IndexFunc(all, func(one List) bool { return one.Policy == n.policy })
			if at < 0 {
				at = len(all)
				all = append(all, bare(n.policy))
			}
			of := &all[at].Of[m]
			of.Rows = append(of.Rows, Row{key, r.Count, r.Err})
			of.Total += r.Count - r.Err
		}
	}
	return all
}

// joined makes one list of several. add is Merge, or Unite for lists of different shards.
func joined(policy string, lists []List, add func([]Summary, int) Summary) List {
	sum, parts := List{Policy: policy}, make([]Summary, len(lists))
	for m := range sum.Of {
		for i := range lists {
			parts[i] = lists[i].Of[m]
			sum.Since = max(sum.Since, lists[i].Since)
		}
		sum.Of[m] = add(parts, math.MaxInt)
	}
	return sum
}

// named returns the lists with one of the names.
func named(lists []List, names ...string) (found []List) {
	for _, l := range lists {
		if slices.Contains(names, l.Policy) {
			found = append(found, l)
		}
	}
	return found
}

// cut keeps the first keys in an order, in all measures, at most most. A flood of keys with one request each has large
// counts and large errors, so the certain part decides the order.
func (l *List) cut(order Measure, most int) {
	first := l.Of[order].Rows
	slices.SortFunc(first, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Count-b.Err, a.Count-a.Err), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Key, b.Key))
	})
	kept := make(map[string]bool)
	for i := range min(most, len(first)) {
		kept[first[i].Key] = true
	}
	for m := range l.Of {
		sum := &l.Of[m]
		sum.Rows = slices.DeleteFunc(sum.Rows, func(r Row) bool {
			if !kept[r.Key] {
				sum.Floor = max(sum.Floor, r.Count) //mutant:cut-list-has-no-floor
			}
			return !kept[r.Key]
		})
	}
}

// policy shows the list in an order.
func (l *List) policy(order Measure) Policy {
	p := Policy{Name: l.Policy, Since: l.Since}
	for m := range l.Of {
		p.Totals[m] = l.Of[m].Total
	}
	for _, row := range l.Of[order].Rows {
		k := Key{Key: row.Key}
		for m := range l.Of {
			k.Estimates[m] = l.Of[m].Of(row.Key)
		}
		p.Keys = append(p.Keys, k)
	}
	return p
}
