package policy

import "github.com/stint-io/stint/limit"

// Meter is the bill of a policy's keys: for each period of a calendar, the admitted units less those given back. It
// denies nothing, and nothing that changes a limit (a reset, a set, OnChange) changes it.
//
// A period closes at its end and becomes final Grace later. Until then a give-back lowers the period in which the units
// were taken; later it is a credit in the open period.
type Meter struct {
	Name  string       `policy:"name,required" text:"name" about:"Name of the bill."`
	Cycle *limit.Cycle `policy:"calendar,required" about:"The periods. Its fields are those of a limit's calendar."`
	// Retain is the number of periods for which a closed period is kept.
	Retain uint64 `policy:"retain,told" usual:"3" min:"1" max:"36" about:"Periods for which a closed one is kept."`
	// Grace is the time from the end of a period until it is final, at most the longest life of a hold.
	Grace limit.Span `policy:"grace,told" usual:"15m" step:"1s" max:"31d" about:"From its end until a period is final."`
}

// meter checks the calendar of a meter.
func (c *checker) meter() {
	if m := c.policy.Meter; m != nil && m.Cycle != nil {
		c.numbers("meter", limit.Limit{Algorithm: limit.Calendar, Quota: 1, Cycle: m.Cycle}, limitField)
	}
}
