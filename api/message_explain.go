package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// explainDecision describes a decision's arithmetic in words: one sentence for the decision, and one for each limit and
// each lockout.
func explainDecision(policies *policy.Set, r *shard.Request, d *shard.Decision) string {
	text := explanation{policies: policies, request: *r, decision: *d, decided: r.Op != shard.Count}
	switch {
	case r.Op == shard.Peek:
		text.WriteString(explainPeek(d))
	case d.Allowed:
		text.WriteString(explainAllowed(r, d))
	default:
		text.WriteString(explainDenied(d))
	}
	text.limits()
	return text.String()
}

func explainAllowed(r *shard.Request, d *shard.Decision) string {
	switch {
	case r.Op == shard.Count:
		return "Counted, whatever the limits say."
	case d.ShadowDenied:
		return "Allowed, as the limits that would have denied are shadowed."
	case d.HoldExpires > 0:
		return fmt.Sprintf("Allowed, and held until %s, for %s.", instantText(d.HoldExpires),
			spanText(limit.Span(d.HoldExpires-d.DecidedAt)))
	case r.Op == shard.Partial:
		return "Allowed, as far as there is room."
	case d.Leased():
		return fmt.Sprintf("Allowed from a lease of %s ago, which is counted as used since then.", spanText(d.Age))
	}
	return "Allowed."
}

func explainDenied(d *shard.Decision) string {
	counted := "Denied, and nothing was counted."
	if d.Challenged() {
		counted = "Challenged, and nothing was counted: it passes once the limits that ask for the challenge are reset."
	}
	if d.Index > 0 {
		counted = "Denied, and counted all the same, as the policy says."
	}
	if d.Repeated() {
		counted = fmt.Sprintf(map[bool]string{false: "Denied", true: "Challenged"}[d.Challenged()]+" %s ago, and "+
			"repeated without asking again, as the policy's deny_cache says.", spanText(d.Age))
	}
	if d.RetryAfter == limit.Never {
		return counted + " No wait helps."
	}
	return fmt.Sprintf("%s Next admitted at %s, in %s.", counted, instantText(answeredAt(d)+limit.Time(d.RetryAfter)),
		spanText(d.RetryAfter))
}

// explainPeek describes what would be decided, and for a denial its end and the limit that lasts longest.
func explainPeek(d *shard.Decision) string {
	switch {
	case d.Allowed && d.ShadowDenied:
		return "Would be allowed, as the limits that would deny are shadowed."
	case d.Allowed:
		return "Would be allowed."
	}
	what := "Would be denied"
	if d.Challenged() {
		what = "Would be challenged"
	}
	if d.RetryAfter == limit.Never {
		what += ", and no wait helps"
	} else {
		const second = limit.Span(time.Second / time.Microsecond)
		wait, at := d.RetryAfter, answeredAt(d)+limit.Time(d.RetryAfter)
		if wait > second { // rounded up, so that no retry is too early
			wait, at = (wait+second-1)/second*second, (at+limit.Time(second)-1)/limit.Time(second)*limit.Time(second)
		}
		until, day := instantText(at), len("2006-01-02T")
		if today := instantText(answeredAt(d)); until[:day] == today[:day] {
			until = until[day:]
		}
		what += fmt.Sprintf(" until %s (in %s)", until, spanText(wait))
	}
	var by *shard.LimitStatus
	for i := range d.Limits {
		if s := &d.Limits[i]; !s.Shadow && !s.Unlimited && (by == nil || tighter(d, s, by)) {
			by = s
		}
	}
	switch {
	case by == nil || by.Allowed || stoppedFor(d, by) > by.RetryAfter:
		return what + ": the key is blocked."
	case by.Remaining > 0:
		return fmt.Sprintf("%s: %d of %d used, and the rest is too little.", what, by.Used, by.Quota)
	}
	return fmt.Sprintf("%s: %d of %d used.", what, by.Used, by.Quota)
}

// explainState describes the result of a Get in words: one sentence for each limit and each lockout.
func explainState(policies *policy.Set, r *shard.Request, d *shard.Decision) string {
	text := explanation{policies: policies, request: *r, decision: *d}
	fmt.Fprintf(&text, "At %s.", instantText(d.DecidedAt))
	text.limits()
	return text.String()
}

// explanation builds a text about the limits of a decision. It holds copies: pointers would put every request on the
// heap, explained or not.
type explanation struct {
	strings.Builder
	policies *policy.Set
	request  shard.Request
	decision shard.Decision
	decided  bool // the limits gave a verdict
}

func (e *explanation) limits() {
	limits := e.decision.Limits
	for i := range limits {
		e.limit(&limits[i])
		if i+1 == len(limits) || !decisions.SameKey(&limits[i], &limits[i+1]) {
			e.lockout(&limits[i])
		}
	}
}

func (e *explanation) limit(s *shard.LimitStatus) {
	fmt.Fprintf(e, "\n%s/%s of %s: ", s.Policy, s.Limit, s.Key)
	if s.Unlimited {
		fmt.Fprintf(e, "%d used, no limit.", s.Used)
		e.fired(s)
		return
	}
	fmt.Fprintf(e, "%d of %d used, ", s.Used, s.Quota)
	if s.Held > 0 {
		fmt.Fprintf(e, "%d of them held, ", s.Held)
	}
	fmt.Fprintf(e, "%d left", s.Remaining)
	if e.decided {
		e.WriteString("; " + verdict(s))
	}
	if s.Granted > 0 {
		fmt.Fprintf(e, "; %d taken", s.Granted)
	}
	e.WriteString(e.ahead(s) + ".")
	e.fired(s)
}

// fired lists the thresholds of a limit that have fired.
func (e *explanation) fired(s *shard.LimitStatus) {
	for _, f := range e.decision.Answer().Fired {
		if f.Policy != s.Policy || f.Key != s.Key || f.Limit != s.Limit {
			continue
		}
		of := ""
		if f.Percent != 0 {
			of = fmt.Sprintf(" (%d%%)", f.Percent)
		}
		until := "for ever"
		if f.Ends <= timestampMax {
			until = "until " + instantText(f.Ends)
		}
		fmt.Fprintf(e, " Threshold %d%s has fired, %s.", f.Units, of, until)
	}
}

// lockout describes the key's place on its ladder, if it is on one, and the block by the ladder or by hand.
func (e *explanation) lockout(s *shard.LimitStatus) {
	if s.LockoutLevel == 0 && s.BlockedUntil == 0 {
		return
	}
	fmt.Fprintf(e, "\n%s/%s of %s: ", s.Policy, decisions.BlockName(s), s.Key)
	if s.LockoutLevel > 0 {
		fmt.Fprintf(e, "level %d, ", s.LockoutLevel)
	}
	if s.BlockedUntil == 0 {
		e.WriteString("not blocked.")
		return
	}
	e.WriteString("blocked ")
	if decisions.BlockName(s) == "block" {
		e.WriteString("by hand ")
	}
	fmt.Fprintf(e, "until %s, for %s", instantText(s.BlockedUntil),
		spanText(limit.Span(s.BlockedUntil-answeredAt(&e.decision))))
	if !s.Blocked {
		e.WriteString("; would deny, but is shadowed")
	}
	e.WriteString(".")
}

func verdict(s *shard.LimitStatus) string {
	switch {
	case s.Allowed:
		return "allows"
	case s.Shadow:
		return "would deny, but is shadowed"
	case s.Soft:
		return "asks for a challenge"
	}
	return "denies"
}

// ahead describes the change that time will bring.
func (e *explanation) ahead(s *shard.LimitStatus) string {
	now := answeredAt(&e.decision)
	rule, _ := decisions.RuleOf(e.policies, &e.request, s)
	switch {
	case s.RetryAfter > 0:
		return fmt.Sprintf("; next admitted at %s, in %s", instantText(now+limit.Time(s.RetryAfter)),
			spanText(s.RetryAfter))
	case s.RetryAfter == limit.Never:
		return "; no wait helps"
	case rule.Algorithm == limit.Concurrency:
		return "; held units come back when they are settled"
	case s.ResetAt == 0:
		return "; what was used never comes back"
	case s.ResetAt <= now:
		return "; at rest"
	}
	what := "at rest again"
	if rule.Algorithm == limit.Calendar {
		what = "the " + period(rule.Cycle) + " ends"
	}
	return fmt.Sprintf("; %s at %s, in %s", what, instantText(s.ResetAt), spanText(limit.Span(s.ResetAt-now)))
}

// period names the period of a calendar limit.
func period(c *limit.Cycle) string {
	unit := [...]string{limit.Minute: "minute", limit.Hour: "hour", limit.Day: "day", limit.Week: "week",
		limit.Month: "month", limit.Year: "year"}[c.Unit]
	if c.Every > 1 {
		unit = fmt.Sprintf("period of %d %ss", c.Every, unit)
	}
	return unit + " in " + c.Zone.String()
}
