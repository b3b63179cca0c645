package lab

import "syscall"

// attributes puts a process into a group of its own, and ends it when ours dies without a chance to.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
