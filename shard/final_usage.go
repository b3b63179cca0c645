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
	Wants          func(namespace, policy string) bool
	From           UsagePlace // where to continue: the Next of the page before
	Most           int        // periods; more only of one key, as its periods are together
}

// ReadFinalUsage reads a page of final bills, of all namespaces, without a commit. Bills that were final at the shard's
// time do not change any more, so it is not behind; it includes the installed corrections. The page's Through is that
// of the query.
func ReadFinalUsage(view *State, policies *policy.Set, q FinalQuery) (UsagePage, error) {
	mark, err := readRestoreMark(view)
	if err != nil {
		return UsagePage{}, err
	}
	now := view.Time()
	u := usageReader{policies: policies, mark: mark, shown: showing(view, true), page: UsagePage{Through: now}}
	page := UsagePage{Through: q.Through}
	before := q.From
	for key, record := range q.From.page(view, &page.Next, func() bool { return len(page.Periods) >= q.Most }) {
		place := UsagePlace{Place: table.Place(keyLayout{}, key)}
		if place.Place == before.Place {
			place.After = before.After
		}
		before = UsagePlace{Place: place.Place, After: string(key)}
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
		if len(page.Periods) > 0 && len(page.Periods)+len(final) > q.Most { //mutant:page-above-its-most
			page.Next = place
			break
		}
		page.Periods = append(page.Periods, final...)
	}
	return page, nil
}
