package load

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData is fdatasync: what a log needs.
func syncData(file *os.File) error { return unix.Fdatasync(int(file.Fd())) }
