package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is by how much Linux may delay the end of a sleep of this process's threads, so that one wake serves several. It is
// 50 us if nobody sets it.
//
// A thread of Go's runtime, sysmon, looks whether others are blocked: every 20 us, and the slack, while anything runs. With 50 us
// it took 14 % of a busy node's processor time and 38 % of its switches of threads, and most of what an idle node spends
// (docs/benchmarks.md, "The thread that watches"). With 200 us a processor is taken from a thread that waits for a disk after
// half a millisecond instead of 0.15. What a node itself waits for (callers, disks, peers) is no more exact than that.
const timerSlack = 200 * time.Microsecond

// startedAgain is an environment variable with the number of the process that has started again. It prevents a third start,
// whatever the system does.
const startedAgain = "STINT_STARTED_AGAIN"

// slackenTimers sets the timer slack of all threads. Only a thread itself may set its own, and sysmon begins before any code of a
// program; but a thread has the slack of the one that made it, also in a program that it executes. So the process executes its
// own program once more, the file that executable names. If that is not possible, it goes on as it is.
func slackenTimers(executable func() (path string, err error)) {
	self := strconv.Itoa(os.Getpid())
	again := os.Getenv(startedAgain) == self
	os.Unsetenv(startedAgain)
	path, err := executable()
	if again || err != nil {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack >= int(timerSlack) {
		return // whoever started this process has set more
	}
	var files unix.Rlimit // of open files, which the runtime has raised and Exec lowers again
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil {
		return
	}
	syscall.Exec(path, os.Args, append(os.Environ(), startedAgain+"="+self))
	unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
	unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0: as when the thread began
}
