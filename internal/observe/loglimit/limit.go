package loglimit

import (
	"sync"
	"time"
)

// subjectsMax bounds the memory. Beyond it, new subjects share the lines of one.
const subjectsMax = 4096

// Limit allows Most lines about each subject in Per. It may be used concurrently; its fields must not change. The zero
// value allows none.
type Limit struct {
	Most int
	Per  time.Duration // from the first line on; it is over, too, when the clock was set back by as much

	mu       sync.Mutex
	subjects map[string]*lines // guarded by mu; "" is also the subject of all those without room
}

// lines counts the lines about one subject.
type lines struct {
	since         time.Time // when the first of them was allowed
	allowed, left int       // since then; left out since the last allowed line
}

// Allow reports whether there may be another line about a subject now, and how many were left out since the last one.
func (l *Limit) Allow(subject string, now time.Time) (left int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.subjects[subject]
	if of == nil {
		of = l.add(subject, now)
	}
	if now.Sub(of.since).Abs() >= l.Per {
		of.since, of.allowed = now, 0
	}
	if of.allowed == l.Most {
		of.left++
		return 0, false
	}
	of.allowed++
	left, of.left = of.left, 0
	return left, true
}

// add adds a subject. If there are too many, it forgets those that have expired. The caller holds mu.
func (l *Limit) add(subject string, now time.Time) *lines {
	if len(l.subjects) >= subjectsMax {
		for other, of := range l.subjects {
			if now.Sub(of.since).Abs() >= l.Per {
				delete(l.subjects, other)
			}
		}
	}
	if len(l.subjects) >= subjectsMax {
		subject = ""
	}
	of := l.subjects[subject]
	if of == nil {
		if l.subjects == nil {
			l.subjects = make(map[string]*lines)
		}
		of = &lines{}
		l.subjects[subject] = of
	}
	return of
}
