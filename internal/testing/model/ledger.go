package model

import "fmt"

// Ledger is what the clients of one key know about it. The limit must be one that never gives anything back.
type Ledger struct {
	Acked   uint64 // units answered as admitted, each operation once
	Unknown uint64 // units of operations with an unknown outcome
}

// Settle compares the ledger with the shard's final count: every admission that was answered must be counted, and
// besides those only operations with an unknown outcome may be.
func (l Ledger) Settle(final uint64) error {
	if final < l.Acked || final > l.Acked+l.Unknown {
		return fmt.Errorf("%d units are counted: answered as admitted were %d, unknown are %d",
			final, l.Acked, l.Unknown)
	}
	return nil
}
