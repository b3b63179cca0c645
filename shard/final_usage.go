package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/table"
)

// FinalQuery selects bills that have become final, for pushing them to sinks.
type FinalQuery struct {
	After, Through limit.Time // bills that became final in (After, Through]; Through is not above the shard's time
	// Wants selects policies. It is called for every counter.
	Wants func(namespace, policy string) bool
	From  UsagePlace // where to continue: the Next of the page before
	Most  int        // periods; more only of one key, or of keys of one hash, which are together
}

// ReadFinalUsage reads a page of final bills, of all namespaces, without a commit. Bills that were final at the shard's
// time do not change any more, so it is not behind; it includes the installed corrections. The page's Through is that
// of the query. A page ends between two places, never within one: a position, which is JSON of few bytes, could not hold
// the key after which the next page begins.
func ReadFinalUsage(view *State, policies *policy.Set, q FinalQuery) (UsagePage, error) {
	mark, err := readRestoreMark(view)
	if err != nil {
		return UsagePage{}, err
	}
	now := view.Time()
	u := usageReader{policies: policies, mark: mark, shown: showing(view, true), page: UsagePage{Through: now}}
	page := UsagePage{Through: q.Through}
	scanned, last := 0, q.From.Place
	for key, record := range view.Scan(q.From.Place) {
		place := table.Place(keyLayout{}, key)
		begins := place != last
		if begins && (scanned >= usageScanned || len(page.Periods) >= q.Most) { //mutant:push-ends-within-a-hash
			page.Next.Place = place
			break
		}
		scanned, last = scanned+1, place
		if len(key) == 0 || key[0] != counterRecord {
			continue
		}
		namespace, name, _, ok := readKeyOf(key)
		if u.namespace = string(namespace); !ok || !q.Wants(u.namespace, string(name)) {
			continue
		}
		u.page.Periods = u.page.Periods[:0]
		if err := u.read(key, record); err != nil {
			return UsagePage{}, err
		}
		page.Unreadable, u.page.Unreadable = append(page.Unreadable, u.page.Unreadable...), nil
		final := slices.DeleteFunc(u.page.Periods, func(p Usage) bool {
			return p.Final <= q.After || p.Final > q.Through
		})
		//mutant:page-above-its-most
		if begins && len(page.Periods) > 0 && len(page.Periods)+len(final) > q.Most {
			page.Next.Place = place
			break
		}
		page.Periods = append(page.Periods, final...)
	}
	return page, nil
}
