package main

import (
	"fmt"
	"time"

	"connectrpc.com/connect"
)

// askEvery is the pause between two questions about something that takes its time.
const askEvery = 200 * time.Millisecond

// await asks until nothing is left to wait for, or wait is over, and answers what was left then; "" is nothing. What is
// left is told on stderr as it changes. A server that cannot be asked for a moment is asked again: what it was told to
// do goes on, and it may be one that is being restarted.
func await(s streams, wait time.Duration, ask func() (left string, err error)) (left string, err error) {
	told := ""
	for deadline := time.Now().Add(wait); ; time.Sleep(askEvery) {
		left, err = ask()
		if err == nil && left != told {
			s.tell(left)
			told = left
		}
		final := err != nil && !passing(err) || err == nil && left == ""
		if final || time.Now().Add(askEvery).After(deadline) {
			break
		}
	}
	if told != "" {
		s.tell("")
	}
	return left, err
}

// passing reports whether a failed question may be answered a moment later. A server that nobody reaches is unavailable
// too.
func passing(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeAborted, connect.CodeUnknown:
		return true
	}
	return false
}

// told is an error as people read it, with the one behind it, whose code await looks at.
type told struct {
	error
	cause error
}

// Unwrap lets errors.As find the cause.
func (t told) Unwrap() error { return t.cause }

// tell shows how far something is: one line that changes where somebody watches, else a line for each change.
func (s streams) tell(progress string) {
	if s.live() {
		fmt.Fprintf(s.err, "\r\x1b[K%s", progress)
	} else if progress != "" {
		fmt.Fprintln(s.err, progress)
	}
}

// plural is "1 shard" or "3 shards".
func plural[N int | uint32 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
