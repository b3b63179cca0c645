package top

import "slices"

// Counts is what one node knows of the policies in a query. Nodes send it to each other as JSON.
type Counts struct {
	Owned    []List `json:",omitempty"` // the decisions of the shards that the node owns
	Repeated []List `json:",omitempty"` // the denials that the node has repeated without asking the owners
	// Cut means that some policies were left out, to keep the counts within their size.
	Cut bool `json:",omitempty"`
	// Traffic is the last ten minutes of answers, the oldest first, if the query asks for it.
	Traffic []Traffic `json:",omitempty"`
}

// Collect makes the counts of one node from the boards of its shards and from that of its repeated denials.
func Collect(q *Query, owned, repeated []Part) Counts {
	c := Counts{Repeated: listsOf(q, repeated)}
	lists := listsOf(q, owned)
	for _, name := range namesOf(lists) {
		l := joined(name, named(lists, name), Unite)
		l.cut(q.Order, q.Count)
		c.Owned = append(c.Owned, l)
	}
	return c
}

// namesOf lists the policies of lists by name.
func namesOf(lists []List) (names []string) {
	for i := range lists {
		names = append(names, lists[i].Policy)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// countsBytesMax bounds the counts on their way to another node: half of what a message may have, because JSON escapes.
const countsBytesMax = 1 << 20

// Bound drops policies until the counts fit into a message between nodes.
func (c *Counts) Bound() {
	n := 0
	fit := func(lists []List, most int) []List {
		for i := range lists {
			n += 256 + len(lists[i].Policy)
			for m := range lists[i].Of {
				for _, r := range lists[i].Of[m].Rows {
					n += 64 + len(r.Key)
				}
			}
			if n > most {
				c.Cut = true
				return lists[:i]
			}
		}
		return lists
	}
	c.Repeated = fit(c.Repeated, countsBytesMax/2)
	c.Owned = fit(c.Owned, countsBytesMax)
}
