package main

import (
	"fmt"
	"time"

	"connectrpc.com/connect"
)

// askEvery is the pause between two questions about the progress of a change.
const askEvery = 200 * time.Millisecond

// await asks until nothing is left or the wait is over, and returns the rest at that time; "" means nothing. It reports
// each change of the rest on stderr. If the server cannot be reached for a moment, await asks again: the change goes on
// without it, and the server may be restarting.
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

// awaitEnd awaits the end of a change on behalf of a command. see names the command that shows it if the wait is over
// before.
func awaitEnd(s streams, command string, wait time.Duration, see string, ask func() (left string, err error)) error {
	left, err := await(s, wait, ask)
	if err == nil && left != "" {
		return fmt.Errorf("%s: after %v %s; it goes on: see %s", command, wait, left, see)
	}
	return err
}

// passing reports whether a failed question may be answered later. A server that cannot be reached counts as
// unavailable.
func passing(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeAborted, connect.CodeUnknown:
		return true
	}
	return false
}
