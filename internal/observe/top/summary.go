package top

import (
	"cmp"
	"slices"
)

// Summary is the list of the first keys of one measure.
type Summary struct {
	Rows  []Row  // by Count, the largest first
	Floor uint64 // upper bound for keys that are not listed
	Total uint64 // of all keys
}

// Row is one key: its count is at most Count, and at least Count - Err.
type Row struct {
	Key        string
	Count, Err uint64
}

// size estimates the memory of a summary in bytes.
func (s *Summary) size() int {
	const perRow, perSummary = 48, 64
	n := perSummary
	for i := range s.Rows {
		n += perRow + len(s.Rows[i].Key)
	}
	return n
}

// Merge adds summaries of different times or nodes, and keeps at most most keys. A key that one of them does not list
// may have had up to its floor there (Agarwal and others, Mergeable Summaries, 2013).
func Merge(parts []Summary, most int) (sum Summary) {
	for i := range parts {
		sum.Floor += parts[i].Floor
	}
	return sum.add(parts, most, true)
}

// Unite joins summaries of different shards, and keeps at most most keys. A key is on one shard only, so the others
// know nothing of it.
func Unite(parts []Summary, most int) (sum Summary) {
	for i := range parts {
		sum.Floor = max(sum.Floor, parts[i].Floor)
	}
	return sum.add(parts, most, false)
}

// add completes a summary with the floor of the parts. anywhere means that a key may have counts in each of them.
func (s Summary) add(parts []Summary, most int, anywhere bool) Summary {
	rows := make(map[string]*Row)
	for i := range parts {
		p := &parts[i]
		s.Total += p.Total
		for _, r := range p.Rows {
			row := rows[r.Key]
			if row == nil {
				row = &Row{Key: r.Key}
				if anywhere {
					row.Count, row.Err = s.Floor, s.Floor //mutant:unlisted-keys-have-nothing
				}
				rows[r.Key] = row
			}
			row.Count += r.Count
			row.Err += r.Err
			if anywhere { // this part lists the key
				row.Count -= p.Floor
				row.Err -= p.Floor
			}
		}
	}
	s.Rows = make([]Row, 0, len(rows))
	for _, row := range rows {
		s.Rows = append(s.Rows, *row)
	}
	slices.SortFunc(s.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
	})
	if len(s.Rows) > most {
		s.Floor = max(s.Floor, s.Rows[most].Count)
		s.Rows = s.Rows[:most]
	}
	return s
}

// Of returns the count of a key, listed or not.
func (s *Summary) Of(key string) Estimate {
	for i := range s.Rows {
		if r := &s.Rows[i]; r.Key == key {
			return Estimate{r.Count, r.Err}
		}
	}
	return Estimate{s.Floor, s.Floor}
}

// Estimate is a count: at most Count, and at least Count - Err.
type Estimate struct{ Count, Err uint64 }

// Least is what the count is at least.
func (e Estimate) Least() uint64 { return e.Count - e.Err }
