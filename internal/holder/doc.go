// Package holder spends leases (rule X17): units of a key that its owner has granted, and counted as used, before. A
// node and the Go client hold them in the same way, so the package knows neither policies nor requests: its caller says
// what may be leased, asks the owner, and has an answer of its own (the type A) for what a lease admits.
package holder
