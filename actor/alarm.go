package actor

import "time"

// alarmEvery is the least interval between two reports of a lasting condition.
const alarmEvery = 10 * time.Second

// alarms are an Observer's repeated reports of lasting conditions.
type alarms struct{ frozen, full, capped, unreadable, off, wrong, set, handOver, fault alarm }

// alarm limits how often a lasting condition is reported. The zero value lets the first report through.
type alarm struct{ raised time.Time }

func (a *alarm) raise(now time.Time, tell func()) { a.raiseEvery(alarmEvery, now, tell) }

func (a *alarm) raiseEvery(every time.Duration, now time.Time, tell func()) {
	if now.Sub(a.raised) >= every {
		a.raised = now
		tell()
	}
}
