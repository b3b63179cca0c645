package limit

// Without returns the limit with units set aside, as for a lease: under it Take, Peek and Status answer as if that many
// more units were used that do not come back. A bucket does not refill into them. The State that Take makes is one of
// l, and contains nothing of them. Units above the quota count as the quota. Add and Convert need l itself.
//
// What holds for a bucket: let m be missing of l, and u set aside. Of units that are spent of u in the meantime, the
// real bucket has them missing at once, and gets some back. As long as they are added to m at the end, and not before,
// m + u is never less than what is really missing and what may still be spent of u.
func (l Limit) Without(units uint64) Limit {
	l.Quota = less(l.Quota, units)
	l.Initial = less(l.Initial, units)
	return l
}

// WindowEnd returns the end of the window or period in which a unit that is counted at now counts, or Forever for a
// limit with units that do not end together.
func WindowEnd(l Limit, s State, now Time) Time {
	if !l.hasWindow() {
		return Forever
	}
	c := counterOf(l, now)
	return c.add(l, c.settle(l, s, now), 1, now).T
}
