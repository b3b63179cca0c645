package actor

import "time"

// alarmEvery is how often somebody is told of what lasts.
const alarmEvery = 10 * time.Second

// alarms are what an Observer is told of for as long as it lasts.
type alarms struct{ frozen, full, unreadable, off, wrong, handOver alarm }

// alarm keeps a report of what lasts from being repeated too often. The zero value lets the first one through.
type alarm struct{ raised time.Time }

func (a *alarm) raise(now time.Time, tell func()) { a.raiseEvery(alarmEvery, now, tell) }

func (a *alarm) raiseEvery(every time.Duration, now time.Time, tell func()) {
	if now.Sub(a.raised) >= every {
		a.raised = now
		tell()
	}
}
