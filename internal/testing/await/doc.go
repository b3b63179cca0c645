// Package await waits, in tests, for what other goroutines, processes and machines do.
//
// A test that sleeps long enough for something to happen is slow on a quiet machine and wrong on a busy one. A test that awaits
// it is as fast as what it waits for, and fails only if that does not come at all: the deadline is generous, because it says
// nothing about how fast anything should be. In a synctest bubble the same functions wait in virtual time.
//
// Nothing here is for the code of the product. arch_clock_test.go says which tests may go by the clock in another way, and why.
package await
