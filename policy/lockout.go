package policy

import "github.com/stint-io/stint/limit"

// Lockout is a ladder of blocks. The After-th violation in a row blocks the key for Base, and each further violation
// for Factor times as long as the block before, up to Max. The ladder starts again after ForgiveAfter without a
// violation, counted from the newest violation or from the end of its block, whichever is later. (X11.) Every block
// ends, so none of its numbers may exceed what an instant can hold. They only make sense together, so all of them are
// written.
type Lockout struct {
	After  uint32     `policy:"after,required" min:"1" about:"The number of violations in a row that lead to a block."`
	Base   limit.Span `policy:"base,required" max:"36600d" about:"Length of the first block."`
	Factor uint32     `policy:"factor,always" usual:"2" min:"1" about:"Growth of the blocks; 1 makes all equally long."`
	// Max is at least Base. The default is an hour, or Base if that is longer.
	Max limit.Span `policy:"max,always" max:"36600d" about:"Longest block. Absent: 1h, or base if that is longer."`
	// ForgiveAfter is the time without a violation after which the ladder starts again.
	ForgiveAfter limit.Span `policy:"forgive_after,always" usual:"24h" max:"36600d" about:"Quiet time that ends it."`
	// OnDenied counts a denial by a limit as a violation too; it requires CountDenied. A denial by the block itself is
	// no violation.
	OnDenied bool `policy:"on_denied" about:"Denials climb the ladder too. Needs count_denied."`
	// StepDown makes a success go one level down instead of clearing failures and ladder.
	StepDown bool `policy:"step_down" about:"A success steps one level down instead of clearing the ladder."`
}

// finishLockout sets the longest block of a ladder that was read.
func finishLockout(_ *decoder, _ value, of any) {
	if l := of.(*Lockout); l.Max == 0 {
		l.Max = max(hour, l.Base)
	}
}

// lockout checks fields against each other.
func (c *checker) lockout() {
	l := c.policy.Lockout
	if l == nil {
		return
	}
	if l.Max < l.Base {
		c.fail("lockout.max", "%v is less than the first block, base: %v", duration(l.Max), duration(l.Base))
	}
	if l.OnDenied && !c.policy.CountDenied {
		c.fail("lockout.on_denied", "needs count_denied: true")
	}
}
