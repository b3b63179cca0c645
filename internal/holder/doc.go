// Package holder spends leases: units of a key that its owner has granted, and counted as used, before. A node and the
// Go client hold them in the same way, so the package knows neither policies nor requests: its caller says what may be
// leased, asks the owner, and has an answer of its own (the type A) for what a lease admits.
//
// A Holder takes a lease of a key from the second check within 200 ms on, of as many units as the key would spend in
// the life of a lease at its present rate. The key's keeper, a goroutine, asks for it, and renews it in one request
// with the return of the former one when a quarter is left or three fifths of the time are over. It returns the lease
// after 200 ms without a check, and on Close. While a request is under way nothing is spent. A lease with an unknown
// answer is not held: it is returned.
//
// X17 is a rule of docs/rules.md.
package holder
