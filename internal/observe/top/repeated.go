package top

import (
	"cmp"
	"math"
	"slices"
)

// repeatedMeasures are what is counted of a repeated denial: a decision and a denial. It admits nothing.
const repeatedMeasures = 2

// Repeated is the denials of one policy that one node has repeated without asking the owners of the keys. A node repeats the denials of
// keys of all shards, and several nodes those of the same key, so their lists are added up.
type Repeated struct {
	// Policy is the name; "": all policies that the node does not list otherwise, of which nothing but the floors is known.
	Policy string
	Since  int64                     // microseconds since the Unix epoch: counted since then
	Of     [repeatedMeasures]Summary // by Measure
}

// SummarizeRepeated makes Answer.Repeated of one node out of what its Board of repeated denials has read.
func SummarizeRepeated(q *Query, parts []Part) (all []Repeated) {
	for i := range parts {
		p := &parts[i]
		one := Repeated{Policy: p.policy, Since: p.since}
		for m := range one.Of {
			one.Of[m] = merged(p.windows, m)
		}
		if p.shared {
			all = append(all, one.split(q)...)
		} else {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b Repeated) int { return cmp.Compare(a.Policy, b.Policy) })
	return all
}

// split parts what a shared table has by policies. Their totals are those of the listed keys only.
func (p *Repeated) split(q *Query) (all []Repeated) {
	bare := func(policy string) Repeated {
		one := Repeated{Policy: policy, Since: p.Since}
		for m := range one.Of {
			one.Of[m].Floor = p.Of[m].Floor
		}
		return one
	}
	all = append(all, bare("")) //mutant:shared-list-lacks-policies
	for m := range p.Of {
		for _, r := range p.Of[m].Rows {
			n, key := nameIn(r.Key)
			if !q.wants(n.namespace, n.policy) {
				continue
			}
			at := slices.IndexFunc(all, func(one Repeated) bool { return one.Policy == n.policy })
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

// addRepeated adds the denials that nodes have repeated. Of a key that an owner or a node does not list, it may have counted as many as
// its floor says.
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
		if q.Order >= repeatedMeasures {
			continue
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

// repeatedNames lists the policies of which denials were repeated.
func repeatedNames(answers []Answer) (names []string) {
	for i := range answers {
		for _, p := range answers[i].Repeated {
			if p.Policy != "" {
				names = append(names, p.Policy)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// repeatedOf adds up what the nodes have repeated of one policy.
func repeatedOf(name string, answers []Answer) (since int64, sums [repeatedMeasures]Summary) {
	var parts [repeatedMeasures][]Summary
	add := func(of []Repeated, policy string) (found bool) {
		for i := range of {
			if of[i].Policy != policy {
				continue
			}
			found, since = true, max(since, of[i].Since)
			for m := range parts {
				parts[m] = append(parts[m], of[i].Of[m])
			}
		}
		return found
	}
	for i := range answers {
		if of := answers[i].Repeated; !add(of, name) {
			add(of, "")
		}
	}
	for m := range sums {
		sums[m] = Merge(parts[m], math.MaxInt)
	}
	return since, sums
}
