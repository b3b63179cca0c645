package bench

import (
	"fmt"
	"math"
	"strconv"
)

// Verdict is the result of a run's audit.
type Verdict struct {
	OK      bool   `json:"ok"`      // nothing was wrongly admitted, and nothing due was denied
	Exact   bool   `json:"exact"`   // each key had only one correct number, and got it
	Checked bool   `json:"checked"` // false if the audit knows no bounds for this policy
	Text    string `json:"text"`
	// Sums over the keys, in units, without the units that drained keys before the run.
	Admitted uint64 `json:"admitted"`
	AtLeast  uint64 `json:"atLeast"` // units that must have been admitted
	AtMost   uint64 `json:"atMost"`  // units that may have been admitted
}

// NotAudited is the verdict of a run that cannot be audited, for the reason.
func NotAudited(l *Ledger, reason string) Verdict {
	v := Verdict{OK: true, Text: "not audited: " + reason}
	for i := range l.Accounts {
		v.Admitted += l.Accounts[i].Admitted.Load()
	}
	return v
}

// audit compares the units admitted to each key with those that must and may have been.
type audit struct {
	plan  Plan
	rules []rule
	span  Span
}

// bounds are the least and the most units that may have been acknowledged to one key as admitted.
type bounds struct{ atLeast, atMost uint64 }

// boundsOf computes the bounds from the requests. An unknown outcome may have spent units silently, so it lowers the
// number that must have been acknowledged and never raises the number that may have been.
func (a audit) boundsOf(admitted, denied, unknown uint64, drained bool) bounds {
	cost := a.plan.Cost
	answered := plus(admitted, denied)
	due := uint64(0)
	if drained {
		cost, due = 1, atRest(a.rules) // a single check spent everything before the run
	} else if a.span.Fresh {
		due = floorTo(atRest(a.rules), cost)
	}
	b := bounds{atLeast: min(answered, due), atMost: min(answered, atMost(a.rules, cost, a.span))}
	b.atLeast -= min(b.atLeast, unknown)
	return b
}

// judge walks the ledger. It stops at the first wrong key, and names it.
func (a audit) judge(l *Ledger) Verdict {
	v := Verdict{OK: true, Exact: true, Checked: true}
	asked := uint64(0)
	for i := range l.Accounts {
		acc := &l.Accounts[i]
		admitted, denied, unknown := acc.Admitted.Load(), acc.Denied.Load(), acc.Unknown.Load()
		drained := i >= a.plan.Keys
		b := a.boundsOf(admitted, denied, unknown, drained)
		if text := wrong(a.plan.KeyName(uint32(i)), admitted, b); text != "" {
			return Verdict{Checked: true, Text: text, Admitted: admitted, AtLeast: b.atLeast, AtMost: b.atMost}
		}
		before := uint64(0)
		if drained {
			before = atRest(a.rules)
		}
		v.Admitted += admitted - before
		v.AtLeast += b.atLeast - min(b.atLeast, before)
		v.AtMost += b.atMost - before
		v.Exact = v.Exact && b.atLeast == b.atMost
		asked += admitted - before + denied + unknown
	}
	v.Text = a.say(v, asked, a.plan.Keys)
	return v
}

// wrong returns the verdict on a key outside its bounds, or "".
func wrong(key string, admitted uint64, b bounds) string {
	if admitted > b.atMost {
		return fmt.Sprintf("OVER-ADMITTED: %s units admitted to key %s, where at most %s fit: %s too many",
			Grouped(admitted), key, Grouped(b.atMost), Grouped(admitted-b.atMost))
	}
	if admitted < b.atLeast {
		return fmt.Sprintf("UNDER-ADMITTED: %s units admitted to key %s, where %s fit and were asked for",
			Grouped(admitted), key, Grouped(b.atLeast))
	}
	return ""
}

// say puts a verdict without errors into a sentence.
func (a audit) say(v Verdict, asked uint64, keys int) string {
	on := ""
	if keys > 1 {
		on = fmt.Sprintf(" on %s keys", Grouped(uint64(keys)))
	}
	count := fmt.Sprintf("%s admitted of %s%s", Grouped(v.Admitted), Grouped(asked), on)
	if !v.Exact {
		return fmt.Sprintf("within bounds: %s, at least %s and at most %s were possible in that time", count,
			Grouped(v.AtLeast), Grouped(v.AtMost))
	}
	limit := "no limit denies"
	if least := atRest(a.rules); least != math.MaxUint64 {
		limit = "limit " + Grouped(least)
	}
	if keys > 1 && len(a.rules) > 0 {
		limit += " each"
	}
	return fmt.Sprintf("exact: %s, %s", count, limit)
}

// Grouped writes a number with a comma at each thousand.
func Grouped(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
