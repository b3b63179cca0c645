package memnet

import (
	"slices"
	"strings"
	"time"
)

// rules are the net's current faults. They are never modified once installed, except that changed is closed when other
// rules replace them.
type rules struct {
	cuts, breaks []link
	isolated     []string
	delays       []fault[time.Duration] // the newest last, also those that end others with 0
	losses       []fault[int]           // percent; likewise
	changed      chan struct{}
}

// link is a direction between two names, or between all names that begin with them.
type link struct{ from, to string }

// fault is how much of something a link has.
type fault[T any] struct {
	link
	amount T
}

// newest returns the amount of the newest fault that fits, or zero.
func newest[T any](faults []fault[T], from, to string) (amount T) {
	for _, f := range slices.Backward(faults) {
		if f.fits(from, to) {
			return f.amount
		}
	}
	return amount
}

func (l link) fits(from, to string) bool {
	return strings.HasPrefix(from, l.from) && strings.HasPrefix(to, l.to)
}

func anyFits(links []link, from, to string) bool {
	return slices.ContainsFunc(links, func(l link) bool { return l.fits(from, to) })
}

func (r *rules) clone() *rules {
	return &rules{cuts: slices.Clone(r.cuts), breaks: slices.Clone(r.breaks), isolated: slices.Clone(r.isolated),
		delays: slices.Clone(r.delays), losses: slices.Clone(r.losses), changed: make(chan struct{})}
}

// stalled reports whether nothing arrives in a direction.
func (r *rules) stalled(from, to string) bool { return anyFits(r.cuts, from, to) }

// broken reports whether two names can have no connection.
func (r *rules) broken(a, b string) bool {
	return anyFits(r.breaks, a, b) || anyFits(r.breaks, b, a) ||
		slices.Contains(r.isolated, a) || slices.Contains(r.isolated, b)
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}

func withoutOne(links []link, l link) []link {
	if i := slices.Index(links, l); i >= 0 {
		return slices.Delete(links, i, i+1)
	}
	return links
}
