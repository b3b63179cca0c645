package bench

import "sync/atomic"

// ledger keeps the units asked for, by key and by fate. It may be used concurrently.
type ledger struct {
	accounts []account // by key number
}

// account is one key's units.
type account struct {
	admitted, denied, unknown atomic.Uint64
}

func newLedger(keys int) *ledger { return &ledger{accounts: make([]account, keys)} }

// enter records one check's fate. A failed check counted nothing, so it leaves no trace.
func (l *ledger) enter(key uint32, f fate, cost uint64) {
	a := &l.accounts[key]
	switch f {
	case allowed:
		a.admitted.Add(cost)
	case denied:
		a.denied.Add(cost)
	case unknown:
		a.unknown.Add(cost)
	}
}
