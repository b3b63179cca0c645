// Package limit is the arithmetic of limits: how much of a quota is used at an instant, whether one more request
// fits, and if not, from which instant on it would.
//
// It owns the algorithms, each in its own file, the periods of the calendar (Cycle, Zone), the numbers a Limit may have
// (Validate), and the bytes in which a State and a Limit are kept. It never knows what a key, a policy or a shard is,
// reads no clock, does no I/O but LoadZone's, takes no lock and uses no float: every answer is exact, and the same on
// every machine that has the same rules for a time zone.
//
// # How it is called
//
// Take decides one request and counts it if it is admitted. Peek decides without counting. Status looks without a
// request. Add counts without deciding. Refund gives units back, and StillCounts says whether it would find any.
// SetUsed makes up what was used. Convert carries a state over to a limit of other numbers. ForgetAt says when a state
// has become the zero State in all but its bytes.
//
// A denied Take returns the State it was given. Quota units are the most that one window or bucket ever admits; only Add
// and SetUsed go past it. A Verdict's Remaining is the largest cost that would be admitted then (of Unlimited it means
// nothing), however much larger than MaxCost.
//
// # What callers must hold to
//
// A Limit passed in has been accepted by Validate, or read by DecodeLimit, which asks Validate. A State belongs to the
// Limit that made it: after a change of numbers it goes through Convert first. A now lies in 0..MaxTime, a cost in
// 1..MaxCost; what lies outside panics with the numbers, since it is a bug of the caller. The nows of one State never
// fall, but may be equal: a batch has one now, and simulated events may share an instant. A falling now is not
// noticed. It can only make a limit stricter: an instant before the newest one counts as no time having passed.
//
// A State that DecodeState accepted never panics, however wrong its numbers are for its Limit.
//
// # Exactness
//
// An instant is an integer number of microseconds, and windows are half open: a hit at t counts while now < t + Period.
// RetryAfter is the first instant at which the same request would be admitted if nobody else spent anything; one
// microsecond earlier it is denied. Rates are kept as the fraction Count / Period reduced by their greatest common
// divisor; levels are whole multiples of what one microsecond gives back, so nothing is ever rounded but the numbers
// shown: used is rounded up, remaining down.
//
// # Calendars and time zones
//
// A Calendar counts in periods of a zone's calendar; Cycle says where they begin. A zone is looked at only when a period
// opens, and its end is then kept as an instant: neither other rules for the zone nor other numbers end it earlier. What
// was taken in a period is given back into that one, or not at all.
//
// A Limit refers to its Cycle, and that to its Zone, so == on Limits compares pointers, and Equal what they point to.
// DecodeLimit is told which Limit is expected, so that it need not load a zone for every record.
//
// # Concurrency
//
// The algorithm of that name counts as Lifetime does: who holds what, and until when, is the caller's to know.
//
// # Tallies
//
// In the State of an Unlimited limit a Tally may be kept, a counter that goes below zero and may end: the caller reads it
// with TallyOf, and makes the State of the new one. Take and the rest count on it as on any other.
//
// All functions are pure and may be called by any number of goroutines, also with the same State.
package limit
