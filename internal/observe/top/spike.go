package top

import (
	"cmp"
	"slices"
)

// The bounds of a spike.
const (
	SpikeDenials = 100 // in the minute of a spike, at least
	SpikeFactor  = 5   // times the mean of the minutes before, at least
	// spikeBefore is the number of earlier minutes to compare with: with that of the spike they are ten.
	spikeBefore = 9
)

// Spike is a key that is denied far more often than before.
type Spike struct {
	Namespace, Policy, Key string
	End                    int64  // of its minute, in microseconds since the Unix epoch
	Denials                uint64 // in that minute, at least
	Mean                   uint64 // in a minute before, at most, rounded up; a minute without data counts as 0
}

// Spikes lists the keys with a spike in the last complete minute, those with most denials first. Policies in a shared
// table are left out: there are too many for one of their own.
func (b *Board) Spikes(now int64) (all []Spike) {
	b.Advance(now)
	end := b.now - b.now%minute
	for n, t := range b.tables {
		last := t.minutes.from(end - minute)
		if n == shared || len(last) == 0 || last[0].start != end-minute {
			continue
		}
		for _, r := range last[0].of[Denials].Rows {
			if r.Count-r.Err < SpikeDenials {
				continue
			}
			var before uint64
			for _, w := range t.minutes.windows {
				if w.start < end-minute && w.start >= end-(1+spikeBefore)*minute {
					before += w.of[Denials].Of(r.Key).Count
				}
			}
			if r.Count-r.Err >= SpikeFactor*((before+spikeBefore-1)/spikeBefore) {
				all = append(all, Spike{n.namespace, n.policy, r.Key, end, r.Count - r.Err,
					(before + spikeBefore - 1) / spikeBefore})
			}
		}
	}
	slices.SortFunc(all, func(a, b Spike) int {
		return cmp.Or(cmp.Compare(b.Denials, a.Denials), cmp.Compare(a.Key, b.Key))
	})
	return all
}
