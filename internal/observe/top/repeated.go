package top

import (
	"cmp"
	"math"
	"slices"
)

// List is the counts of one policy in one table: of a shard, or of the denials that a node has repeated without asking
// the owners of the keys. A node repeats the denials of keys of all shards, and several nodes those of the same key, so
// those lists are added up. A repeated denial is a decision and a denial; it admits nothing.
type List struct {
	// Policy is the name; "" stands for all policies that the node does not list, with known floors only.
	Policy string
	Since  int64             // start of the counts, in microseconds since the Unix epoch
	Of     [measures]Summary // by Measure
}

// SummarizeRepeated makes Answer.Repeated of one node from its Board of repeated denials.
func SummarizeRepeated(q *Query, parts []Part) []List {
	all := listsOf(q, parts)
	slices.SortStableFunc(all, func(a, b List) int { return cmp.Compare(a.Policy, b.Policy) })
	return all
}

// listsOf makes a list of each policy of each part.
func listsOf(q *Query, parts []Part) (all []List) {
	for i := range parts {
		p := &parts[i]
		one := List{Policy: p.policy, Since: p.since}
		for m := range one.Of {
			one.Of[m] = merged(p.windows, m)
		}
		if p.shared {
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

// addRepeated adds the denials that nodes have repeated. An owner or node may have counted up to its floor of a key
// that it does not list.
func (a *Answer) addRepeated(q *Query, answers []Answer) {
	for _, name := range repeatedNames(answers) {
		since, sums := repeatedOf(name, answers)
		at, known := slices.BinarySearchFunc(a.Policies, name, func(p Policy, name string) int { return cmp.Compare(p.Name, name) })
		if !known {
			a.Policies = slices.Insert(a.Policies, at, Policy{Name: name, Floors: a.Shared})
		}
		p := &a.Policies[at]
		p.Since = max(p.Since, since)
		listed := make(map[string]bool, len(p.Keys))
		for i := range p.Keys {
			k := &p.Keys[i]
			for m := range sums {
				k.Estimates[m] = k.Estimates[m].plus(sums[m].Of(k.Key))
			}
			listed[k.Key] = true
		}
		for m := range sums {
			p.Totals[m] += sums[m].Total
		}
		raise(&p.Floors, a.Shared)
		for _, r := range sums[q.Order].Rows {
			if listed[r.Key] {
				continue
			}
			k := Key{Key: r.Key}
			for m, floor := range p.Floors {
				k.Estimates[m] = Estimate{floor, floor} //mutant:unlisted-keys-have-nothing
			}
			for m := range sums {
				k.Estimates[m] = k.Estimates[m].plus(sums[m].Of(r.Key))
			}
			p.Keys = append(p.Keys, k)
		}
	}
}

// repeatedNames lists the policies with repeated denials.
func repeatedNames(answers []Answer) (names []string) {
	for i := range answers {
		for _, l := range answers[i].Repeated {
			if l.Policy != "" {
				names = append(names, l.Policy)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// repeatedOf adds up the nodes' repeated denials of one policy. A node that does not list it may have it in a shared
// table.
func repeatedOf(name string, answers []Answer) (since int64, sums [measures]Summary) {
	var parts [measures][]Summary
	for i := range answers {
		of, wanted := answers[i].Repeated, ""
		if slices.ContainsFunc(of, func(l List) bool { return l.Policy == name }) {
			wanted = name
		}
		for j := range of {
			if l := &of[j]; l.Policy == wanted {
				since = max(since, l.Since)
				for m := range parts {
					parts[m] = append(parts[m], l.Of[m])
				}
			}
		}
	}
	for m := range sums {
		sums[m] = Merge(parts[m], math.MaxInt)
	}
	return since, sums
}
