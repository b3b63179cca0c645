package holder

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of Linux: it runs on while the machine sleeps, and nothing sets it.
const clockBoottime = 7

// readBoot reads it. That is a call of the kernel, which takes longer than everything else that a check does.
func readBoot() time.Duration {
	var boot syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&boot)),
		0); errno != 0 {
		panic("holder: no CLOCK_BOOTTIME: " + errno.Error()) // every kernel has it that Go runs on
	}
	return time.Duration(boot.Nano())
}
