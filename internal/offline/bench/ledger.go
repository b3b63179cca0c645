package bench

import "sync/atomic"

// Ledger keeps the units asked for, by key and by fate. It may be used concurrently.
type Ledger struct {
	Accounts []Account // by key number
}

// Account is one key's units.
type Account struct {
	Admitted, Denied, Unknown atomic.Uint64
}

func newLedger(keys int) *Ledger { return &Ledger{Accounts: make([]Account, keys)} }

// enter records one check's fate. A failed check counted nothing, so it leaves no trace.
func (l *Ledger) enter(key uint32, f Fate, cost uint64) {
	a := &l.Accounts[key]
	switch f {
	case Allowed:
		a.Admitted.Add(cost)
	case Denied:
		a.Denied.Add(cost)
	case Unknown:
		a.Unknown.Add(cost)
	}
}
