package policy

import "github.com/stint-io/stint/limit"

func (d *decoder) lockout(v value) *Lockout {
	f := d.fields(v, "after", "base", "factor", "max", "forgive_after", "on_denied", "step_down")
	d.require(v, f, "after", "base")
	var base limit.Span
	d.span(f["base"], &base)
	l := DefaultLockout(base)
	small(d, f["after"], &l.After)
	small(d, f["factor"], &l.Factor)
	d.span(f["max"], &l.Max)
	d.span(f["forgive_after"], &l.ForgiveAfter)
	d.flag(f["on_denied"], &l.OnDenied)
	d.flag(f["step_down"], &l.StepDown)
	return &l
}

// lockout checks the ladder. Every block ends, so none of its numbers may exceed what an instant can hold.
func (c *checker) lockout() {
	l := c.policy.Lockout
	if l == nil {
		return
	}
	if l.After < 1 {
		c.fail("lockout.after", "must be at least 1: the number of violations in a row that lead to a block")
	}
	if l.Factor < 1 {
		c.fail("lockout.factor", "must be at least 1: 1 makes all blocks equally long")
	}
	c.blockSpan("lockout.base", l.Base)
	c.blockSpan("lockout.max", l.Max)
	c.blockSpan("lockout.forgive_after", l.ForgiveAfter)
	if l.Max < l.Base {
		c.fail("lockout.max", "%v is less than the first block, base: %v", duration(l.Max), duration(l.Base))
	}
	if l.OnDenied && !c.policy.CountDenied {
		c.fail("lockout.on_denied", "needs count_denied: true")
	}
}

func (c *checker) blockSpan(field string, s limit.Span) {
	if s < 1 || s > limit.MaxPeriod {
		c.fail(field, "must be at least 1us and at most 100 years (%s)", SpanText(limit.MaxPeriod))
	}
}
