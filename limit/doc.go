// Package limit is the arithmetic of limits: how much of a quota is used at an instant, whether one more request fits,
// and if not, when it would.
//
// The package owns the algorithms, each in its own file, the periods of the calendar (Cycle, Zone), the range of a
// Limit's numbers (Validate), and the encoding of a State and a Limit. It knows nothing of keys, policies or shards. It
// reads no clock, does no I/O, takes no lock and uses no float. Every answer is exact, and the same on every machine,
// since the rules of the time zones are part of the program too.
//
// # Functions
//
//   - Take decides one request and counts it if it is admitted. Peek decides without counting.
//   - Status returns the state of a limit without a request.
//   - Add and AddBounded count without deciding.
//   - Refund gives units back, and StillCounts reports whether it would find any.
//   - SetUsed sets the number of used units.
//   - Convert carries a state over to a limit of other numbers.
//   - ForgetAt returns when a state becomes equivalent to the zero State.
//   - Full makes the state of a key with unknown usage, as after a restore from a backup.
//
// A denied Take returns the State it was given. Quota units are the most that one window or bucket ever admits; only
// Add, AddBounded and SetUsed exceed it. A Verdict's Remaining is the largest cost that would be admitted at that
// instant, even if it is larger than MaxCost. For Unlimited it means nothing.
//
// # Duties of the caller
//
// A Limit must have been accepted by Validate, or read by DecodeLimit, which calls Validate. A State belongs to the
// Limit that made it: after a change of numbers it must pass through Convert first. A now lies in 0..MaxTime, and a
// cost in 1..MaxCost. A value outside its range is a bug of the caller, and panics with the numbers. The successive
// nows of one State must not fall, but may be equal: a batch has one now, and simulated events may share an instant. A
// falling now is not detected. It can only make a limit stricter: an instant before the newest one counts as no time
// having passed.
//
// A State that DecodeState accepted never causes a panic, however wrong its numbers are for its Limit.
//
// # Exactness
//
// An instant is an integer number of microseconds, and windows are half-open: a hit at t counts while now < t + Period.
// RetryAfter is the wait until the first instant at which the same request would be admitted if no other request spent
// anything. One microsecond earlier it is denied. Rates are kept as the fraction Count / Period reduced by their
// greatest common divisor, and levels are whole multiples of what one microsecond gives back. So only the displayed
// numbers are rounded: used up, remaining down.
//
// # Calendars and time zones
//
// A Calendar counts in periods of a zone's calendar; Cycle defines where they begin. The zone is consulted only when a
// period opens. The end of the period is then kept as an instant, and neither new rules for the zone nor new numbers
// end it earlier. Units taken in a period are given back to that period or not at all.
//
// A Limit points to its Cycle, and the Cycle to its Zone. So == on Limits compares pointers, while Equal compares the
// values behind them. DecodeLimit takes the expected Limit, so that it need not load a zone for every record.
//
// # Concurrency
//
// The Concurrency algorithm counts as Lifetime does, besides what Full adds. The caller keeps track of the holds and of
// when they expire.
//
// # Tallies
//
// The State of an Unlimited limit may contain a Tally, a counter that can go below zero and can end. The caller reads
// it with TallyOf and writes it with Tally.State. Take and the other functions count on it as on any other State.
//
// # Concurrent use
//
// All functions are pure. Any number of goroutines may call them, even with the same State.
//
// The package is a public API: programs may use it to compute what a limit would decide.
package limit
