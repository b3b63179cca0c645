package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData is fdatasync, as a log needs it.
func syncData(file *os.File) error { return unix.Fdatasync(int(file.Fd())) }
