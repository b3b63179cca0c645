package auth

import (
	"sync"
	"time"
)

// The rate at which an address's wrong tokens are logged: attemptsBurst at once, then one for each attemptsEvery
// (GCRA).
const (
	attemptsBurst     = 10
	attemptsEvery     = time.Second
	attemptsAddresses = 4096
)

// Attempts bounds the log lines caused by wrong tokens. It never makes a caller wait, and refuses no caller: right
// tokens may come from the same address. It may be used concurrently.
type Attempts struct {
	mu   sync.Mutex
	next map[string]time.Time // by address: its theoretical arrival time; guarded by mu
}

// Worth reports whether to log a wrong token of an address.
func (a *Attempts) Worth(address string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, known := a.next[address]
	if !known && len(a.next) >= attemptsAddresses {
		a.forget(now)
		if len(a.next) >= attemptsAddresses {
			return false
		}
	}
	if at.Before(now) {
		at = now
	}
	if at.Sub(now) > (attemptsBurst-1)*attemptsEvery {
		return false
	}
	if a.next == nil {
		a.next = make(map[string]time.Time)
	}
	a.next[address] = at.Add(attemptsEvery)
	return true
}

// forget drops the addresses that have their whole burst again. The caller holds mu.
func (a *Attempts) forget(now time.Time) {
	for address, at := range a.next {
		if at.Before(now) {
			delete(a.next, address)
		}
	}
}
