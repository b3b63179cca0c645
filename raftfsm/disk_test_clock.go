package raftfsm

import "fmt"

// RecordTestClock marks a directory with a clock that tests move, from its first moment.
const RecordTestClock = "test-clock"

// RefuseTestClock returns an error if tests have moved the clock of a data directory. What it counts is in a time that
// may begin in years, and the move of the clock has refilled every limit.
func RefuseTestClock(path string, read func(name string, into any) (bool, error)) error {
	var moved bool
	if _, err := read(RecordTestClock, &moved); err != nil || !moved {
		return err
	}
	return fmt.Errorf("%s is what a server with --test-clock left behind: "+
		"its time is not the time, so nothing opens it; delete it", path)
}
