// Package stinttest is a stint for tests: a real node in the test's own process, with a clock that the test moves.
//
//	s := stinttest.Start(t, `
//	policies:
//	  login:
//	    limits: [{name: hour, quota: 5, fixed_window: {period: 1h}}]
//	`)
//	c := s.Client()
//	... // five logins pass, the sixth is denied
//	s.Advance(time.Hour)
//	... // the seventh passes
//
// A node takes about a tenth of a second to start, and its data is deleted with the test. Programs in other languages
// start `stint serve --dev --test-clock` and call stint.test.v1.TestClock/Advance, which takes and answers JSON like
// every call.
//
// The clock moves forward only. Decisions, holds, blocks, calendars and the instants in answers follow it; time limits
// of calls do not. A client that can move the clock can refill every limit, so the server listens on 127.0.0.1 and
// exists for tests alone.
//
// All methods of a Server may be called concurrently. The package is a public API. It links the whole server, so import
// it in test files only.
package stinttest
