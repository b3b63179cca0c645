// Package chaos holds tests that run the real binary on a real disk and kill it with SIGKILL at random moments under
// load. They need the build tag "chaos", a Go toolchain to build the binary with, and a minute:
//
//	go test -tags chaos ./internal/chaos
//
// What they check: an answer that was given is never forgotten, a limit of N admits at most N whatever happens, and
// exactly N when clients ask again with their ids. The clients are plain net/http: nothing of stint decides there.
package chaos
