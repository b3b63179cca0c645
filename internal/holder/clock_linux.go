package holder

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of Linux: it runs on while the machine sleeps, and nobody sets it.
const clockBoottime = 7

// MachineClock is the machine's clocks.
func MachineClock() Time {
	var boot syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&boot)), 0); errno != 0 {
		panic("holder: no CLOCK_BOOTTIME: " + errno.Error()) // every kernel has it that Go runs on
	}
	return Time{time.Duration(boot.Nano()), time.Duration(time.Now().UnixNano())}
}
