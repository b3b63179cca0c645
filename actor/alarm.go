package actor

import "time"

// alarmEvery is how often somebody is told of what lasts.
const alarmEvery = 10 * time.Second

// alarm keeps a report of what lasts from being repeated too often. The zero value lets the first one through.
type alarm struct{ raised time.Time }

func (a *alarm) raise(now time.Time, tell func()) {
	if now.Sub(a.raised) >= alarmEvery {
		a.raised = now
		tell()
	}
}
