// Package await waits, in tests, for other goroutines, processes and machines.
//
// A test that sleeps long enough for something to happen is slow on a quiet machine and wrong on a busy one. A test
// that awaits it is as fast as the awaited event, and fails only if that does not come at all: the deadline is
// generous, because it implies nothing about how fast anything should be. In a synctest bubble the same functions wait
// in virtual time.
//
// It is not for product code. arch_clock_test.go lists the tests that may go by the clock in another way, and why.
package await
