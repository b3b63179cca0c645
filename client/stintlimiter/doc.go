// Package stintlimiter is a store for the limiter of github.com/sethvargo/go-limiter, so that a program with its
// middleware limits exactly, together with all its replicas:
//
//	middleware, err := httplimit.NewMiddleware(stintlimiter.New(limits, "per-ip"), httplimit.IPKeyFunc())
//
// The limits are those of the policy. The middleware answers 500 where there is no decision, and a program that would
// rather let such requests pass, or wants the policy's headers, takes package stinthttp. The package is a public API.
package stintlimiter
