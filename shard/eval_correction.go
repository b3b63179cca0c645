package shard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stint-io/stint/limit"
)

// CorrectUsage corrects a bill by hand: it adds units to a period of a key's meter, or takes some away. Its amount is
// the request's Adjustment.
//
// A correction is a figure of its own. It changes no limit and neither units nor credits, so that the admitted and
// returned units stay visible. A final period keeps its units and credits, and can be corrected as long as it is kept:
// its revision shows receivers of its bill that there is a correction. A request is alone in its entry, so that each
// correction has a revision of its own.

// MaxCorrection bounds the units of one correction, in either direction.
const MaxCorrection = limit.MaxCost

// maxCorrected bounds the corrections of a period, in either direction: units - credits + corrections fits into an
// int64.
const maxCorrected = maxBilled / 2

// Correction says which bill a CorrectUsage is about.
type Correction struct {
	Meter string // "": the policy's
	// Period is "" for the open one, or the instant at which it starts in the form of RFC 3339, or a year, a month or a
	// day in which it is the only one that starts.
	Period string
}

func (x *Correction) code(c *MessageCodec) { c.Text(&x.Meter, &x.Period) }

// periodProblem returns the problem of a correction's period, as text that follows the name of the field, or "".
func periodProblem(period string) string {
	if _, err := time.Parse(time.RFC3339, period); err == nil || StartsProblem(period) == "" {
		return ""
	}
	return "must be the start of a period, or a year, a month or a day in which only that one starts, " +
		"as in 2026-10-01T04:00:00Z or 2026-10"
}

// CorrectedBill returns the period after a CorrectUsage, at the instant of its decision. ok is false if the answer is
// forgotten: the correction was made once, too long ago.
func CorrectedBill(r *Request, d *Decision) (u Usage, ok bool) {
	page, err := UsageOf(r.Namespace, d)
	if err != nil || len(page.Periods) != 1 {
		return Usage{}, false
	}
	u = page.Periods[0]
	u.Policy, u.Key = r.Entries[0].Policy, r.Entries[0].Key
	return u, true
}

// correctionProblem refuses a correction that is invalid for any key.
func correctionProblem(r *Request) *Error {
	x := r.systemTerms().Correction
	if x == nil {
		return Invalidf("system", "is no correction that this version knows: run a newer one")
	}
	if err := CorrectionProblem(x.Period, r.Adjustment.Amount, r.Adjustment.Note); err != nil {
		return err
	}
	if r.Entries[0].Limits != nil {
		return Invalidf("policy", "must be that of a policy: inline limits have no meter")
	}
	return nil
}

// CorrectionProblem refuses a correction of so many units before it is sent to a shard; period is as in Correction.
func CorrectionProblem(period string, units int64, note string) *Error {
	switch {
	case period != "" && periodProblem(period) != "":
		return Invalidf("period", "%s", periodProblem(period))
	case units == 0 || units < -MaxCorrection || units > MaxCorrection:
		return Invalidf("units", "are %d: 1 to %d are added, or as many taken away", units, int64(MaxCorrection))
	case note == "":
		return Invalidf("note", "is missing: say why the bill is corrected")
	}
	return nil
}

// correct answers CorrectUsage. before contains the limits, which do not change.
func (e *evaluation) correct(r *Request, before Decision) Result {
	if e.room.brimful() {
		return Result{Err: e.full()}
	}
	d, c := before, e.charges[0].counter
	m, p, err := periodToCorrect(c, r.System.Correction, e.at.Now)
	if err != nil {
		return Result{Err: err}
	}
	sum := p.corrections + r.Adjustment.Amount
	if sum < -maxCorrected || sum > maxCorrected {
		return Result{Err: Invalidf("units", "are %d: the period has %d already, and at most %d in all are allowed",
			r.Adjustment.Amount, p.corrections, int64(maxCorrected))}
	}
	said := m.correctionWords(p)
	p.corrections, p.revised = sum, e.at.Now //mutant:correction-is-units
	e.touch(c)
	e.number(&d)
	e.showExtras(&d)
	// Without names: the request has them.
	d.System = &SystemAnswer{Usage: &UsagePage{Periods: []Usage{m.usage(p)}, Through: e.at.Now}}
	entry := &r.Entries[0]
	//mutant:correction-off-record
	auditLog{&e.batch}.note(r.Adjustment, AuditRecord{
		Namespace: r.Namespace,
		Policy:    entry.Policy,
		Key:       entry.Key,
		Deed:      r.Op.Deed(),
		Before:    said,
		After:     fmt.Sprintf("%+d, %s", r.Adjustment.Amount, m.correctionWords(p)),
	})
	return Result{Decision: d}
}

// periodToCorrect returns the period of a meter that a correction is for. If it is the open one, it begins now unless
// it has begun.
func periodToCorrect(c *counter, x *Correction, now limit.Time) (*meter, *period, *Error) {
	text, own := x.Period, ""
	if terms := c.policy.Meter; terms != nil {
		own = terms.Name
	}
	name := cmp.Or(x.Meter, own)
	if name == "" {
		return nil, nil, Invalidf("meter", "is missing, and the policy has none now: name that of the bill")
	}
	i := slices.IndexFunc(c.meters, func(m meter) bool { return m.name == name })
	kept := i >= 0 && slices.ContainsFunc(c.meters[i].periods, func(p period) bool { return p.keptUntil() > now })
	if !kept && name != own {
		return nil, nil, Invalidf("meter", "is %q: neither the policy's, nor one of which a period of the key is kept",
			name)
	}
	m := meter{name: name, since: now}
	if i >= 0 {
		m = c.meters[i]
	}
	if len(m.periods) == 0 || now >= m.newest().end {
		m.periods = append(slices.Clip(m.periods), m.nextPeriod(c, now))
	}
	place, err := m.place(text, now)
	if err != nil {
		return nil, nil, err
	}
	//mutant:correction-begins-a-period
	if place < len(m.periods)-1 && i >= 0 && len(m.periods) > len(c.meters[i].periods) {
		m.periods = m.periods[:len(m.periods)-1] // the open one has not begun
	}
	if i < 0 {
		i, c.meters = len(c.meters), append(c.meters, m)
	}
	c.meters[i] = m
	return &c.meters[i], &c.meters[i].periods[place], nil
}

// place returns the index of the period that a text names. The newest one is open.
func (m *meter) place(text string, now limit.Time) (place int, err *Error) {
	if text == "" {
		return len(m.periods) - 1, nil
	}
	place = -1
	for i := range m.periods {
		switch p := &m.periods[i]; {
		case p.keptUntil() <= now || !p.isNamed(text): //mutant:correction-of-a-dropped-period
		case place >= 0:
			return 0, Invalidf("period", "is %q, in which several start: name the start of one, as in %s",
				text, instantWords(p.start))
		default:
			place = i
		}
	}
	if place < 0 {
		return 0, Invalidf("period", "is %q: no period of meter %q that starts then is kept for the key", text, m.name)
	}
	return place, nil
}

// isNamed reports whether a text is the start of a period, or a year, month or day in which it starts.
func (p *period) isNamed(text string) bool {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return limit.Time(at.UnixMicro()) == p.start
	}
	return p.startsIn(text)
}

// correctionWords describes the corrections of a period.
func (m *meter) correctionWords(p *period) string {
	return fmt.Sprintf("%s from %s: %+d in all", m.name, instantWords(p.start), p.corrections)
}
